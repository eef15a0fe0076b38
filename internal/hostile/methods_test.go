package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

// documented says which reasons the contract allows with which code; INTERNAL is
// a fault of ours and so is never allowed here.
func documented() map[codes.Code]string {
	return map[codes.Code]string{
		codes.InvalidArgument:  "INVALID_ARGUMENTS KEY_REQUIRED INVALID_REQUEST",
		codes.NotFound:         "UNKNOWN_ACTION_TYPE OPERATION_NOT_FOUND REVIEW_NOT_FOUND",
		codes.Unauthenticated:  "UNAUTHENTICATED",
		codes.PermissionDenied: "ROLE_REQUIRED TENANT_INACTIVE POLICY_DENIED REQUESTER_CANNOT_REVIEW",
		codes.FailedPrecondition: "IDEMPOTENCY_KEY_REUSED KEY_EXPIRED NOT_CORRECTABLE NOT_CANCELLABLE INTENT_OPEN INTENT_QUIET STOPPED " +
			"REVIEW_DECIDED DECISION_NOT_APPLICABLE POLICY_CHANGED ARGUMENTS_CHANGED",
		codes.ResourceExhausted: "BUDGET_EXHAUSTED RATE_LIMITED OVERLOADED",
		codes.Unavailable:       "PROVIDER_UNAVAILABLE GOING_AWAY",
		codes.Aborted:           "CONCURRENT_CHANGE",
		codes.Canceled:          "CALLER_LEFT",
		codes.DeadlineExceeded:  "CALLER_LEFT",
	}
}

// served lists every method that a server has, of the contract and of health and
// reflection, in a stable order.
func served(tb testing.TB) []protoreflect.MethodDescriptor {
	tb.Helper()
	var all []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		switch file.Package() {
		case "onceward.v1", "grpc.health.v1", "grpc.reflection.v1":
			for i := range file.Services().Len() {
				service := file.Services().Get(i)
				if service.Name() == "AdapterService" { // others implement it
					continue
				}
				for j := range service.Methods().Len() {
					all = append(all, service.Methods().Get(j))
				}
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.MethodDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	if len(all) < 15 {
		tb.Fatalf("only %d methods are known", len(all))
	}
	return all
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{ encoding.Codec }

func (bytesCodec) Name() string                  { return "proto" }
func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

// invoke sends bytes to a method, and returns its answer, or the first of them.
func invoke(ctx context.Context, conn *grpc.ClientConn, method protoreflect.MethodDescriptor, wire []byte) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: method.IsStreamingServer(), ClientStreams: method.IsStreamingClient()},
		fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()), grpc.ForceCodec(bytesCodec{}))
	if err != nil {
		return nil, err
	}
	// A server that has answered already breaks the sending; its answer says why.
	if err := stream.SendMsg(wire); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	answer := dynamicpb.NewMessage(method.Output())
	return answer, stream.RecvMsg(answer)
}

// besieged is a world under attack.
type besieged struct {
	world   *apptest.World
	replica *apptest.Replica
	faults  *faults
	rows    *pgx.Conn
	keys    []string // credentials to pick from; the first is none
	words   []string
	effects int // of the provider that were looked at
}

func besiege(tb testing.TB) *besieged {
	tb.Helper()
	b := &besieged{world: apptest.New(tb, apptest.Options{}), faults: &faults{}}
	b.replica = b.world.Start(tb, func(c *app.Config) { c.Log, c.Reconcile = slog.New(b.faults), false })
	b.rows = b.world.Database.Owner(tb)
	// Who may stop everything does so in a tenant of its own.
	b.keys = []string{
		"", "ow_rubbish", b.world.Agent, b.world.Reviewer, b.world.Globex,
		b.world.Key(tb, "initech", "all", "agent", "reviewer", "auditor", "admin"),
	}
	ids := []string{b.world.Ask(tb, b.replica, apptest.Refund("ch_seed", 5, "run_seed")).GetOperation().GetId()}
	ids = append(ids, b.world.Ask(tb, b.replica, apptest.Invoice("inv_seed")).GetOperation().GetId())
	b.words = texts(ids)
	return b
}

// recorded counts what a request that is refused must not add to.
func (b *besieged) recorded(t *testing.T) string {
	t.Helper()
	var counts string
	if err := b.rows.QueryRow(t.Context(), `SELECT concat_ws(' ', (SELECT count(*) FROM operations), (SELECT count(*) FROM reviews),
		(SELECT count(*) FROM approvals), (SELECT count(*) FROM kill_switches), (SELECT count(*) FROM leases))`).Scan(&counts); err != nil {
		t.Fatal(err)
	}
	return counts
}

// try sends one request and judges the answer and what became of it.
func (b *besieged) try(t *testing.T, method protoreflect.MethodDescriptor, wire []byte, key string, extra metadata.MD) {
	t.Helper()
	ctx := metadata.NewOutgoingContext(t.Context(), extra)
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	before := b.recorded(t)
	_, err := invoke(ctx, b.replica.Conn, method, wire)
	st := status.Convert(err)
	if errors.Is(err, io.EOF) {
		st = status.New(codes.OK, "") // a stream that ended with nothing to say
	}
	ours := method.ParentFile().Package() == "onceward.v1"
	switch st.Code() {
	case codes.OK:
	case codes.DeadlineExceeded, codes.Canceled: // ours: gRPC says it in its own words when the caller's time is over
	case codes.Internal, codes.Unknown, codes.DataLoss:
		t.Errorf("%s: %v", method.FullName(), st)
	default:
		if ours || st.Code() == codes.Unauthenticated {
			wantDocumented(t, method, st)
		}
		if after := b.recorded(t); after != before {
			t.Errorf("%s was refused (%v), and the record went from %s to %s", method.FullName(), st, before, after)
		}
	}
	for _, fault := range b.faults.take() {
		t.Errorf("%s: the log has a fault: %s", method.FullName(), fault)
	}
	b.wantRows(t)
}

func wantDocumented(t *testing.T, method protoreflect.MethodDescriptor, st *status.Status) {
	t.Helper()
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			if info.GetDomain() != "onceward" || !slices.Contains(strings.Fields(documented()[st.Code()]), info.GetReason()) {
				t.Errorf("%s: %s with reason %s of %s, which the contract does not have", method.FullName(), st.Code(), info.GetReason(), info.GetDomain())
			}
			return
		}
	}
	// What the transport itself refuses has no details: more than it takes.
	if st.Code() != codes.ResourceExhausted {
		t.Errorf("%s: no ErrorInfo in %v", method.FullName(), st)
	}
}

// wantRows fails the test when the provider holds an effect without an attempt on
// record.
func (b *besieged) wantRows(t *testing.T) {
	t.Helper()
	effects := b.world.Provider.Effects()
	for _, e := range effects[b.effects:] {
		var known bool
		if err := b.rows.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM attempts WHERE operation_id = $1::text::uuid)`, e.OperationID).Scan(&known); err != nil || !known {
			t.Errorf("effect %+v has no row: %v", e, err)
		}
	}
	b.effects = len(effects)
}

// sendable reports whether gRPC's own client would send this as metadata: others
// are tried on the wire (wire_test.go).
func sendable(name, value string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	for _, c := range []byte(value) {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "grpc-") && len(value) < 8<<10 && len(name) < 1<<10
}

// Whatever comes to whichever method, with whatever metadata: an answer that the
// contract has, no fault in the log, nothing on record of what was refused, and no
// effect without its row.
func FuzzEveryMethod(f *testing.F) {
	methods := served(f)
	random := rand.New(rand.NewPCG(1, 2)) // the same seeds each time
	for i := range methods {
		for form := range byte(8) {
			data := make([]byte, 60)
			for j := range data {
				data[j] = byte(random.UintN(256))
			}
			f.Add(byte(i), form, byte(2+i%4), data, "onceward-tenant", []string{"acme", "initech", "nobody"}[i%3])
		}
	}
	f.Add(byte(0), byte(1), byte(0), []byte{1}, "authorization", "Bearer")
	f.Add(byte(1), byte(1), byte(2), []byte{1, 1, 1, 1, 1, 1}, "authorization", "Basic eDp5")
	f.Add(byte(2), byte(0), byte(1), []byte("\xff\xff\xff\xff\x0f"), "traceparent", "00-zz")
	f.Add(byte(3), byte(1), byte(5), []byte{}, "x-bin", "AAA")
	b := besiege(f)
	f.Fuzz(func(t *testing.T, which, form, who byte, data []byte, name, value string) {
		method := methods[int(which)%len(methods)]
		extra := metadata.MD{}
		if sendable(name, value) {
			extra.Append(name, value)
		}
		wire := encode(form, dynamicpb.NewMessage(method.Input()), data, b.words)
		b.try(t, method, wire, b.keys[int(who)%len(b.keys)], extra)
	})
}

// Random messages get through: some requests are served and recorded. Without this
// the fuzz target could be refused at the door for ever and prove nothing.
func TestRandomMessagesGetThrough(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	random := rand.New(rand.NewPCG(3, 4))
	reached := 0
	for range 200 {
		data := make([]byte, 80)
		for i := range data {
			data[i] = byte(random.UintN(256))
		}
		input := dynamicpb.NewMessage(protoregistryMethod(t, "onceward.v1.ActionService.RequestAction").Input())
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+b.world.Agent)
		if _, err := invoke(ctx, b.replica.Conn, protoregistryMethod(t, "onceward.v1.ActionService.RequestAction"), encode(5, input, data, b.words)); err == nil {
			reached++
		}
	}
	if reached == 0 {
		t.Error("of 200 random requests none was served")
	}
	ops, err := b.world.Owner().List(t.Context(), "acme", ledger.Filter{}, "", 10)
	if err != nil || len(ops) < 3 {
		t.Errorf("they left %d operations (%v)", len(ops), err)
	}
	b.wantRows(t)
}

func protoregistryMethod(t *testing.T, name protoreflect.FullName) protoreflect.MethodDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MethodDescriptor)
}
