package grpcaction

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const someArguments = `{"order_id":"or_1","points":9007199254740993,"note":"ä"}`

// TestFrozenBytes: what Render gives to be frozen is what is sent, the same for
// every call, and the message that the contract says.
func TestFrozenBytes(t *testing.T) {
	t.Parallel()
	p := &peer{}
	address := serve(t, p)
	a := adapterAt(t, Options{Address: address})
	call := callOf(t, someArguments)
	first, err := a.Render(call)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.Render(callOf(t, `{"note":"ä","points":9007199254740993, "order_id":"or_1"}`))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("rendered twice: %v\n%q\n%q", err, first, second)
	}
	if o := a.Execute(t.Context(), call); o.Kind != actions.Applied {
		t.Fatalf("got %s", shownOutcome(o))
	}
	want := &oncewardv1.ExecuteRequest{
		ActionType: "loyalty.points.grant", Version: "3", ContractVersion: "7", Tenant: "acme",
		OperationId: call.OperationID, ProviderKey: call.ProviderKey,
		ArgumentsJson: `{"note":"ä","order_id":"or_1","points":9007199254740993}`,
	}
	if got := p.arrived[0]; !proto.Equal(got, want) {
		t.Errorf("arrived %v, want %v", got, want)
	}
	if frozen := append([]byte("/onceward.v1.AdapterService/Execute\n"), marshal(t, want)...); !bytes.Equal(first, frozen) {
		t.Errorf("frozen %q, want %q", first, frozen)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	p := &peer{}
	address := serve(t, p)
	a := adapterAt(t, Options{Address: address})
	a.Lookup(t.Context(), actions.Query{Call: callOf(t, `{}`), ProviderReference: "gr_1", FirstSentAt: first, LastSentAt: first.Add(time.Minute)})
	want := &oncewardv1.LookupRequest{
		ActionType: "loyalty.points.grant", Version: "3", ContractVersion: "7", Tenant: "acme",
		OperationId: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e", ProviderKey: "0123456789abcdefghijklmnop", ArgumentsJson: `{}`,
		ProviderReference: "gr_1", FirstSentAt: timestamppb.New(first), LastSentAt: timestamppb.New(first.Add(time.Minute)),
	}
	if len(p.looked) != 1 || !proto.Equal(p.looked[0], want) {
		t.Errorf("arrived %v, want %v", p.looked, want)
	}
}

// A token travels beside what is frozen, in attempts alone, and only where it is
// asked for.
func TestOperationToken(t *testing.T) {
	t.Parallel()
	p := &peer{}
	address := serve(t, p)
	call := callOf(t, someArguments)
	call.OperationToken = "signed.by.us"
	asked := adapterAt(t, Options{Address: address, TokenAudience: "loyalty"})
	for _, a := range []looker{asked, adapterAt(t, Options{Address: address})} {
		if o := a.Execute(t.Context(), call); o.Kind != actions.Applied {
			t.Fatalf("got %s", shownOutcome(o))
		}
		frozen, err := a.Render(call)
		if err != nil || bytes.Contains(frozen, []byte(call.OperationToken)) {
			t.Errorf("rendered %q, %v", frozen, err)
		}
	}
	if with, without := p.arrived[0].GetOperationToken(), p.arrived[1].GetOperationToken(); with != call.OperationToken || without != "" {
		t.Errorf("arrived %q and %q, want the token and none", with, without)
	}
	asked.Lookup(t.Context(), actions.Query{Call: call})
	if got := p.looked[0]; got.GetProviderReference() != "" || len(got.ProtoReflect().GetUnknown()) != 0 {
		t.Errorf("a look-up carries it: %v", got)
	}
}
