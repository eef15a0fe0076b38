package grpcaction

import (
	"context"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// adapter performs one action type in the process behind a client. It is safe
// for concurrent use.
type adapter struct {
	client  *Client
	spec    actions.Spec
	circuit *circuit
}

// looker is an adapter whose type can look up. An adapter without the method
// tells the reconciler that it cannot.
type looker struct{ *adapter }

var (
	_ actions.Adapter  = (*adapter)(nil)
	_ actions.Renderer = (*adapter)(nil)
	_ actions.Renderer = looker{}
	_ actions.Looker   = looker{}
)

func (c *Client) newAdapter(spec actions.Spec, canLookUp bool) actions.Adapter {
	a := &adapter{client: c, spec: spec, circuit: newCircuit(spec.Type, c.options.Circuit)}
	if canLookUp {
		return looker{a}
	}
	return a
}

// Spec returns what the adapter process described.
func (a *adapter) Spec() actions.Spec { return a.spec }

// Validate accepts everything: the schema has spoken, and what it cannot say is
// refused by Execute in the adapter process.
func (*adapter) Validate(actions.Arguments) error { return nil }

// Render returns the method and the very bytes of the message that Execute
// sends, but for the operation token, which is another one at each attempt.
func (a *adapter) Render(call actions.Call) ([]byte, error) {
	return append([]byte(oncewardv1.AdapterService_Execute_FullMethodName+"\n"), encodeCall(a.spec, call)...), nil
}

// Execute makes one attempt: one stream at most.
func (a *adapter) Execute(ctx context.Context, call actions.Call) (outcome actions.Outcome) {
	done, open := a.circuit.enter()
	if open != nil {
		return *open
	}
	defer func() { done(outcome) }() // also when something panics: then it is ambiguous
	ctx, cancel := context.WithTimeout(ctx, a.spec.WithDefaults().Timeout)
	defer cancel()
	x := a.client.call(ctx, oncewardv1.AdapterService_Execute_FullMethodName, encodeAttempt(a.spec, call))
	if x.err != nil {
		return outcomeOfError(x)
	}
	var answer oncewardv1.ExecuteResponse
	if err := decode(x.answer, &answer); err != nil {
		return ambiguous(fmt.Sprintf("gRPC OK with %d bytes that are no ExecuteResponse", len(x.answer)))
	}
	return outcomeOf(answer.GetOutcome())
}

// Lookup asks for the effect of an operation. It does not heed the circuit: it
// writes nothing, and it is what ends a doubt.
func (l looker) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	ctx, cancel := context.WithTimeout(ctx, l.client.options.LookupTimeout)
	defer cancel()
	x := l.client.call(ctx, oncewardv1.AdapterService_Lookup_FullMethodName, encodeQuery(l.spec, query))
	if x.err != nil {
		return actions.Finding{Detail: evidenceOf(x)}
	}
	var answer oncewardv1.LookupResponse
	if err := decode(x.answer, &answer); err != nil {
		return actions.Finding{Detail: fmt.Sprintf("gRPC OK with %d bytes that are no LookupResponse", len(x.answer))}
	}
	return findingOf(answer.GetFinding())
}

// decode reads an answer. Text that is no UTF-8, which protobuf refuses but
// some of its implementations send, is mended: an adapter that passes on a
// strange character has still said what it said.
func decode(data []byte, m proto.Message) error {
	if proto.Unmarshal(data, m) == nil {
		return nil
	}
	mended, err := mendText(data, m.ProtoReflect().Descriptor())
	if err != nil {
		return err
	}
	return proto.Unmarshal(mended, m)
}

// circuit keeps an adapter that does not answer from being called.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	openFor time.Duration
}

func newCircuit(actionType string, o Circuit) *circuit {
	return &circuit{openFor: o.OpenFor, breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: actionType, Timeout: o.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= o.Failures },
	})}
}

// enter returns the outcome of an attempt that must not be made, or a function
// that takes the outcome of the one that was.
func (c *circuit) enter() (done func(actions.Outcome), open *actions.Outcome) {
	report, err := c.breaker.Allow()
	if err != nil {
		return nil, &actions.Outcome{Kind: actions.NotApplied, RetryAfter: c.openFor, Failure: actions.Failure{
			Code: codeUnreachable, Message: "The adapter did not answer before; nothing was sent to it for a while.",
			Evidence: "not sent: the circuit is open",
		}}
	}
	return func(o actions.Outcome) {
		if o.Kind == actions.Ambiguous || o.Failure.Code == codeUnreachable {
			report(errNoAnswer)
			return
		}
		report(nil)
	}, nil
}
