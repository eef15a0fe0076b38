package laws

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Whatever bytes come as a RequestAction: no fault of ours in the answer, and no
// effect without its row.
func FuzzRequestAction(f *testing.F) {
	structured := apptest.Refund("ch_2", 5, "run_2")
	structured.ArgumentsForm = &oncewardv1.RequestActionRequest_Arguments{Arguments: &structpb.Struct{Fields: map[string]*structpb.Value{
		"charge_id": structpb.NewStringValue("ch_2"), "amount": structpb.NewNumberValue(5), "currency": structpb.NewStringValue("usd")}}}
	seeds := []*oncewardv1.RequestActionRequest{
		{}, apptest.Refund("ch_1", 5, "run_1"), structured, apptest.Keyed(apptest.Invoice("inv_1"), "key"), apptest.Contact("li@example.test"), apptest.Note("n", "run_1"),
	}
	for _, c := range badRequests() {
		req := apptest.Refund("ch_1", 5, "run_1")
		c.change(req)
		if proto.Size(req) < 4<<10 {
			seeds = append(seeds, req)
		}
	}
	for _, seed := range seeds {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	w := apptest.New(f, apptest.Options{})
	r := w.Start(f, nil)
	ledgerRows := w.Database.Owner(f)
	checked := 0
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(apptest.As(t.Context(), w.Agent), 5*time.Second)
		defer cancel()
		resp, err := raw(ctx, r, data)
		switch code := status.Code(err); code {
		case codes.OK:
			if resp.GetOperation().GetId() == "" || resp.GetNextStep().GetMessage() == "" {
				t.Errorf("answer %v", resp)
			}
		case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.ResourceExhausted, codes.DeadlineExceeded:
			wantPlain(t, err)
		default:
			t.Errorf("%s: %v", code, err)
		}
		effects := w.Provider.Effects()
		for _, e := range effects[checked:] {
			var known bool
			if err := ledgerRows.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM attempts WHERE operation_id = $1::text::uuid)`, e.OperationID).Scan(&known); err != nil || !known {
				t.Errorf("effect %+v has no row: %v", e, err)
			}
		}
		checked = len(effects)
	})
}
