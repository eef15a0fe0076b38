package apptest

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

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
