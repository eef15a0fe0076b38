package dispatch

import (
	"context"
	"log/slog"
	"slices"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

// scrubbed is a failure without sensitive arguments, which providers repeat: it
// is logged, stored and shown.
func scrubbed(f actions.Failure, args actions.Arguments, sensitive []string) actions.Failure {
	f.Message, f.Evidence = args.Scrub(f.Message, sensitive), args.Scrub(f.Evidence, sensitive)
	f.Violations = slices.Clone(f.Violations)
	for i := range f.Violations {
		f.Violations[i].Message = args.Scrub(f.Violations[i].Message, sensitive)
	}
	return f
}

// logAttempt writes the one line that each attempt has in the log.
func (d *Dispatcher) logAttempt(op ledger.Operation, outcome actions.Outcome) {
	if !d.Log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attributes := [...]slog.Attr{
		slog.String("tenant", op.Tenant), slog.String("operation", op.ID), slog.String("action_type", op.ActionType),
		slog.String("run", op.Run.RunID), slog.String("step", op.Run.StepID), slog.Int("attempt", op.Attempt),
		slog.String("outcome", outcome.Kind.String()), slog.String("evidence", outcome.Failure.Evidence), optrace.LogAttr(&op),
	}
	d.Log.LogAttrs(context.Background(), slog.LevelInfo, "attempt made", attributes[:]...)
}

func (d *Dispatcher) log(op ledger.Operation) *slog.Logger {
	return d.Log.With("tenant", op.Tenant, "operation", op.ID, "action_type", op.ActionType,
		"run", op.Run.RunID, "step", op.Run.StepID, "attempt", op.Attempt, optrace.LogAttr(&op))
}
