package apptest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Describe says what happened at the provider: every request and effect.
func (w *World) Describe() string {
	var b strings.Builder
	b.WriteString("provider saw:\n")
	for _, r := range w.Provider.Requests() {
		fmt.Fprintf(&b, "  request %d: %s %s operation=%s key=%s fault=%s: status %d effect=%s replayed=%t finished=%t\n",
			r.Number, r.Method, r.Target, r.OperationID, r.Key, r.Fault, r.Status, r.EffectID, r.Replayed, r.Finished)
	}
	for _, e := range w.Provider.Effects() {
		fmt.Fprintf(&b, "  effect %s on %s by request %d: operation=%s %s\n", e.ID, e.NaturalKey, e.Request, e.OperationID, e.Body)
	}
	return b.String()
}

// WantEffects fails the test unless the provider holds exactly n effects.
func (w *World) WantEffects(t testing.TB, n int) {
	t.Helper()
	if got := len(w.Provider.Effects()); got != n {
		t.Errorf("the target holds %d effects, want %d; %s", got, n, w.Describe())
	}
}

// Try sends a request as the agent of acme.
func (w *World) Try(ctx context.Context, r *Replica, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	return r.Actions.RequestAction(As(ctx, w.Agent), req)
}

// Ask sends a request as the agent of acme and wants an answer.
func (w *World) Ask(t testing.TB, r *Replica, req *oncewardv1.RequestActionRequest) *oncewardv1.RequestActionResponse {
	t.Helper()
	resp, err := w.Try(t.Context(), r, req)
	if err != nil {
		t.Fatalf("%s: %v; %s", req.GetActionType(), err, w.Describe())
	}
	return resp
}

// AskIn is Ask, and wants a state.
func (w *World) AskIn(t testing.TB, r *Replica, req *oncewardv1.RequestActionRequest, state oncewardv1.OperationState) *oncewardv1.RequestActionResponse {
	t.Helper()
	resp := w.Ask(t, r, req)
	if got := resp.GetOperation().GetState(); got != state {
		t.Fatalf("%s is %s (%v), want %s; %s", req.GetActionType(), got, resp.GetOperation().GetFailure(), state, w.Describe())
	}
	return resp
}

// Held returns an operation of acme as the ledger has it now. It bears with a
// ledger that is away for a moment.
func (w *World) Held(t testing.TB, id string) ledger.Operation {
	t.Helper()
	return w.WaitFor(t, "acme", id, ledger.States()...)
}

// EffectsOf counts what the target holds of an operation: at the provider, and
// as notes.
func (w *World) EffectsOf(t testing.TB, id string) int {
	t.Helper()
	return len(w.Provider.EffectsFor(id)) + w.Database.Count(t, `SELECT count(*) FROM demo_notes WHERE operation_id = $1::uuid`, id)
}

// WantOneEffect fails the test unless the target holds exactly one effect of an
// operation that has succeeded.
func (w *World) WantOneEffect(t testing.TB, id string) {
	t.Helper()
	if n := w.EffectsOf(t, id); n != 1 {
		t.Errorf("the target holds %d effects of %s, want 1; audit %v; %s", n, id, w.Trail(t, id), w.Describe())
	}
	if op := w.Held(t, id); op.State != ledger.Succeeded || op.ProviderReference == "" {
		t.Errorf("operation is %s with reference %q, want succeeded; audit %v", op.State, op.ProviderReference, w.Trail(t, id))
	}
}

// Trail returns the events of an operation's audit record.
func (w *World) Trail(t testing.TB, id string) []string {
	t.Helper()
	var events []string
	for _, e := range w.Database.Audit(t, ledger.Operation{Tenant: "acme", ID: id}) {
		events = append(events, e.Event)
	}
	return events
}

// WantTrail fails the test unless the audit record holds exactly these events,
// named in one line.
func (w *World) WantTrail(t testing.TB, id, events string) {
	t.Helper()
	if got := w.Trail(t, id); !slices.Equal(got, strings.Fields(events)) {
		t.Errorf("audit record is %v, want %v; %s", got, events, w.Describe())
	}
}

// Waiting returns a copy of a request that is held for at most that long.
func Waiting(req *oncewardv1.RequestActionRequest, wait time.Duration) *oncewardv1.RequestActionRequest {
	c := proto.CloneOf(req)
	c.Wait = durationpb.New(wait)
	return c
}

// Keyed returns a copy of a request with a key of the caller's.
func Keyed(req *oncewardv1.RequestActionRequest, key string) *oncewardv1.RequestActionRequest {
	c := proto.CloneOf(req)
	c.IdempotencyKey = key
	return c
}

// WantReason fails the test unless err is a status with this code and ErrorInfo
// reason.
func WantReason(t testing.TB, err error, code codes.Code, reason string) *status.Status {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != code {
		t.Fatalf("got %v, want %s %s", err, code, reason)
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			if info.GetReason() != reason || info.GetDomain() != "onceward" {
				t.Fatalf("got reason %s of %s, want %s: %v", info.GetReason(), info.GetDomain(), reason, err)
			}
			return st
		}
	}
	t.Fatalf("no ErrorInfo in %v", err)
	return nil
}

// Refund is a request to refund a charge, with its key from run and step.
func Refund(charge string, amount int, run string) *oncewardv1.RequestActionRequest {
	return request("payments.refund.create", fmt.Sprintf(`{"charge_id":%q,"amount":%d,"currency":"usd"}`, charge, amount), run, "refund")
}

// Invoice is a request to send an invoice; its key is composed of the arguments.
func Invoice(invoice string) *oncewardv1.RequestActionRequest {
	return request("email.invoice.send", fmt.Sprintf(`{"to":"li@example.test","invoice_id":%q,"revision":1}`, invoice), "run_"+invoice, "invoice")
}

// Contact is a request to create a contact; its key is composed of the address.
func Contact(email string) *oncewardv1.RequestActionRequest {
	return request("crm.contact.create", fmt.Sprintf(`{"email":%q,"name":"Li"}`, email), "run_"+email, "contact")
}

// Note is a request to insert a note, with its key from run and step.
func Note(subject, run string) *oncewardv1.RequestActionRequest {
	return request("notes.insert", fmt.Sprintf(`{"subject":%q,"body":"text"}`, subject), run, "note")
}

func request(actionType, arguments, run, step string) *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{
		ActionType:    actionType,
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: arguments},
		Run:           &oncewardv1.RunContext{RunId: run, StepId: step, Agent: "test"},
		Wait:          durationpb.New(Patience),
	}
}

// ReasonOf returns the reason in an error's ErrorInfo, or empty.
func ReasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
