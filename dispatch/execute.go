package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/panics"
	"github.com/onceward/onceward/ledger"
)

// run makes a claimed attempt and settles it. Of ctx it takes the span that it is
// done for, and nothing else.
func (d *Dispatcher) run(ctx context.Context, p Prepared, op ledger.Operation, claimed time.Time) ledger.Operation {
	attempting, span := d.spans.Operation(ctx, &op, "attempt")
	begun := false
	outcome := d.gates.of(op.Tenant, p.action.Spec.Contract).through(op, func() actions.Outcome {
		begun = true
		return d.execute(attempting, p, op, claimed)
	})
	provider := p.action.Spec.Contract.Provider
	if !begun {
		d.Metrics.HeldBack(provider, HeldByCircuit)
	}
	outcome.Failure = scrubbed(outcome.Failure, p.call.Arguments, p.action.Spec.SensitiveArgs)
	d.logAttempt(op, outcome)
	endAttempt(span, provider, outcome.Kind)
	return d.settle(ctx, op, p.action.Spec, outcome)
}

// execute is the one place where an adapter is called to write. parent has the
// attempt's span.
func (d *Dispatcher) execute(parent context.Context, p Prepared, op ledger.Operation, claimed time.Time) (outcome actions.Outcome) {
	// A worker that was held up (paused, starved) since its claim could still
	// be sending when its lease runs out.
	// By both clocks: the monotonic one stands still while a machine sleeps.
	late := max(time.Since(claimed), time.Now().Round(0).Sub(claimed.Round(0)))
	if late > d.LeaseGrace/2 {
		return actions.Outcome{Kind: actions.NotApplied, Failure: actions.Failure{
			Code: "not_started", Evidence: fmt.Sprintf("not sent: %s passed between claim and call", late.Round(time.Millisecond))}}
	}
	call, ok := d.withToken(p.call, op, p.action.Spec)
	if !ok {
		return noToken()
	}
	began := time.Now()
	defer func() {
		if r := recover(); r != nil {
			d.log(op).Error("adapter panicked", panics.Attr(r))
			outcome = actions.Outcome{Failure: actions.Failure{Code: "adapter_panic", Evidence: "the adapter panicked"}}
		}
		d.Metrics.Attempted(op.Tenant, op.ActionType, p.action.Spec.Contract.Provider, outcome.Kind.String(), time.Since(began))
	}()
	// Nothing of the caller's context but its span: the write goes on when the
	// caller leaves.
	ctx, cancel := context.WithTimeout(withSpanOf(context.Background(), parent), p.action.Spec.Timeout)
	defer cancel()
	return p.action.Adapter.Execute(ctx, call)
}
