package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Times between tries to settle while the ledger is away.
const (
	firstSettleGap = 50 * time.Millisecond
	maxSettleGap   = 5 * time.Second
	settleTimeout  = 10 * time.Second // of one try
)

// settle records an outcome, as often as it takes while the process lives: a
// receipt that came back is not given up because the ledger is away. If the
// process dies first, the row is still running and ends as unknown.
//
// It returns the operation as last known. Of ctx it takes the span that it is done
// for, and nothing else.
func (d *Dispatcher) settle(ctx context.Context, op ledger.Operation, spec actions.Spec, outcome actions.Outcome) (settled ledger.Operation) {
	_, span := d.spans.Operation(ctx, &op, "settle")
	defer func() { endSettle(span, settled) }()
	attempt, cur := op.Attempt, op
	var unanswered *ledger.Change // that may have been made all the same
	for gap := firstSettleGap; ; gap = min(2*gap, maxSettleGap) {
		now, err := d.informed(cur, spec, outcome)
		var recorded ledger.Operation
		if err == nil {
			cur = now
			v := decide(cur, attempt, spec, outcome)
			if recorded, err = d.record(cur, v); errors.Is(err, ledger.ErrUnavailable) && v.change != nil {
				unanswered = v.change
			}
		}
		if err == nil {
			if cur.State != ledger.Running || cur.Attempt != attempt {
				d.Metrics.Overtaken(op.Tenant, op.ActionType)
			}
			d.Changed(recorded)
			return recorded
		}
		switch refused, ok := errors.AsType[*ledger.WriteRefusedError](err); {
		case ok:
			// Rolled back as a whole: proof that nothing was applied. But where the
			// answer to an earlier try was lost, what refuses the write may be that
			// very write.
			var now ledger.Operation
			if now, err = d.reread(op); err == nil {
				if isRecorded(now, attempt, outcome) {
					return d.foundMade(unanswered, now)
				}
				outcome = refusedWrite(refused)
				continue
			}
		case errors.Is(err, ledger.ErrFenced):
			var now ledger.Operation
			if now, err = d.reread(op); err == nil {
				if isRecorded(now, attempt, outcome) {
					return d.foundMade(unanswered, now)
				}
				moved := now.Revision != cur.Revision
				if cur = now; moved {
					continue
				}
				err = ledger.ErrFenced
			}
		}
		if errors.Is(err, ledger.ErrNotFound) {
			d.log(op).Error("operation vanished before its outcome was recorded", "outcome", outcome.Kind.String())
			return cur
		}
		d.log(op).Error("outcome not recorded yet, trying again", "outcome", outcome.Kind.String(), "reference", outcome.Receipt.Reference, "error", err)
		select {
		case <-d.ctx.Done():
			return cur
		case <-time.After(gap):
		}
	}
}

// informed is the operation with how its attempts ended, where the verdict
// depends on that.
func (d *Dispatcher) informed(cur ledger.Operation, spec actions.Spec, outcome actions.Outcome) (ledger.Operation, error) {
	if !needsAttempts(cur, spec, outcome) {
		return cur, nil
	}
	return d.reread(cur)
}

// record writes a verdict once.
func (d *Dispatcher) record(cur ledger.Operation, v verdict) (ledger.Operation, error) {
	ctx, cancel := context.WithTimeout(d.ctx, settleTimeout)
	defer cancel()
	switch {
	case v.evidence != nil:
		if v.evidence.Incident != "" {
			d.log(cur).Error("INCIDENT: " + v.evidence.Incident)
		}
		return d.Ledger.AddEvidence(ctx, *v.evidence)
	case v.change == nil:
		return cur, nil
	}
	settled, err := d.Ledger.Apply(ctx, *v.change)
	if err != nil || v.then == nil {
		return settled, err
	}
	// If the process dies here the operation is unknown with a reason that the
	// reconciler escalates as well.
	d.log(cur).Error("ALARM: " + v.then.Detail)
	then := *v.then
	then.Operation, then.Effect, then.Reason = settled, settled.Effect, settled.Reason
	escalated, err := d.Ledger.Apply(ctx, then)
	if err != nil {
		d.log(cur).Warn("escalation is left to the reconciler", "error", err)
		return settled, nil
	}
	return escalated, nil
}

func (d *Dispatcher) reread(op ledger.Operation) (ledger.Operation, error) {
	ctx, cancel := context.WithTimeout(d.ctx, settleTimeout)
	defer cancel()
	return d.Ledger.Get(ctx, op.Tenant, op.ID)
}

// foundMade tells of a change whose answer was lost, and that the ledger shows.
func (d *Dispatcher) foundMade(unanswered *ledger.Change, now ledger.Operation) ledger.Operation {
	if unanswered != nil {
		d.Metrics.FoundMade(*unanswered, now)
	}
	d.Changed(now)
	return now
}

// isRecorded reports whether the ledger shows this very outcome already: the
// answer to an earlier try to record it was lost.
func isRecorded(cur ledger.Operation, attempt int, outcome actions.Outcome) bool {
	for _, a := range cur.Attempts {
		if a.Number == attempt {
			return !a.EndedAt.IsZero() && a.Outcome == outcome.Kind.String()
		}
	}
	return false
}

func refusedWrite(refused *ledger.WriteRefusedError) actions.Outcome {
	return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{
		Code: "write_refused", Message: "The database refused the write: " + refused.Message + ".",
		Evidence: refused.Error() + "; the transaction was rolled back"}}
}
