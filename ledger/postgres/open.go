package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// Open records a new operation under its key, with its first move, and returns
// it with created true. Where the key is taken it changes nothing and returns
// the operation that holds it, after comparing action type and arguments hash. While
// a restore is in force for it, what is new is recorded in doubt, whatever its first
// move would have been.
//
// It fails with *ledger.KeyReusedError when they differ (the holder is in the
// error), with ledger.ErrKeyExpired when the key is past its window for good,
// with *ledger.BudgetExhaustedError or *ledger.IntentHeldError when it cannot
// have its holds, with *ledger.StoppedError when a kill switch is set and nobody
// holds the key, with ledger.ErrOverloaded when too many wait, with ledger.ErrFenced
// when what refuses it comes and goes (nothing was written), and with
// ledger.ErrUnavailable when the ledger did not answer: then nothing may be sent, and
// if the row was made after all, it ends as unknown.
func (s *Store) Open(ctx context.Context, o ledger.Opening) (op ledger.Operation, created bool, err error) {
	// Only a restore puts a new operation in doubt.
	if _, ok := ledger.Next(ledger.New, o.Event); !ok || o.Event == ledger.Doubt {
		return ledger.Operation{}, false, fmt.Errorf("%w: %s of a new operation", ledger.ErrIllegalMove, o.Event)
	}
	if o.Event == ledger.Escalate && o.Review == nil {
		return ledger.Operation{}, false, errNoReview
	}
	if err := checkHolds(o.Holds); err != nil {
		return ledger.Operation{}, false, err
	}
	// What is under way must end: only new operations are refused.
	if s.writes.full() {
		s.observer.Overloaded(ledger.Writes)
		return ledger.Operation{}, false, ledger.ErrOverloaded
	}
	if existing, done, err := s.plainlyRefused(ctx, &o); done {
		return existing, false, err
	}
	opening, restored := &o, (*ledger.Restore)(nil)
	for range openRounds {
		w := opens(opening)
		w.restored = restored
		if err := s.writes.do(ctx, w); err != nil {
			return ledger.Operation{}, false, err
		}
		switch {
		case w.err != nil:
			return ledger.Operation{}, false, w.err
		case w.done:
			return w.operation(), true, nil
		}
		if w.refusal != nil {
			if err := s.whyRefused(ctx, &o, w.refusal); err != nil {
				s.remember(o.Operation.Tenant, err)
				return ledger.Operation{}, false, err
			}
			continue // its holder is gone meanwhile
		}
		existing, err := s.taken(ctx, &o)
		if !errors.Is(err, ledger.ErrNotFound) {
			return existing, false, err
		}
		if restored, err = s.RestoreOf(ctx, o.Operation.Tenant, o.Operation.ActionType); err != nil {
			return ledger.Operation{}, false, err
		}
		opening = &o
		if restored != nil {
			opening = inDoubtOf(o)
			continue
		}
		if err := s.stopped(ctx, o.Operation.Tenant, o.Operation.ActionType, o.Provider); err != nil {
			return ledger.Operation{}, false, err
		}
	}
	return ledger.Operation{}, false, fmt.Errorf("%w: what refuses the opening comes and goes", ledger.ErrFenced)
}

// openRounds is how often an opening is tried whose reason to be refused is gone
// when it is looked for: the key was freed, the holder of its intent ended, a kill
// switch was cleared, a restore is in force. The second round is enough unless it comes again.
const openRounds = 4

// taken returns the operation that holds the key of an opening, or why the
// opening is refused. ErrNotFound means that the key is free now.
func (s *Store) taken(ctx context.Context, o *ledger.Opening) (ledger.Operation, error) {
	// A statement of its own: the insert does not see a winner that was
	// uncommitted when it began.
	h, err := s.holder(ctx, o.Operation.Tenant, o.Operation.Key)
	if errors.Is(err, ledger.ErrNotFound) {
		buried, err := s.Buried(ctx, o.Operation.Tenant, o.Operation.Key)
		if err == nil {
			err = ledger.ErrNotFound
		}
		if buried {
			err = ledger.ErrKeyExpired
		}
		return ledger.Operation{}, err
	}
	switch {
	case err != nil:
		return ledger.Operation{}, err
	case h.expired == "reject":
		return ledger.Operation{}, ledger.ErrKeyExpired
	case h.expired == "reuse":
		// Where another opener frees it at this moment, there is nothing to do.
		args := pgx.NamedArgs{"tenant": h.op.Tenant, "key": h.op.Key, "id": h.op.ID}
		if _, err := s.pool.Exec(ctx, retireSQL, args); err != nil {
			return ledger.Operation{}, unavailable(err)
		}
		return ledger.Operation{}, ledger.ErrNotFound
	case h.op.ActionType != o.Operation.ActionType || h.op.ArgsHash != o.Operation.ArgsHash:
		return ledger.Operation{}, &ledger.KeyReusedError{Existing: h.op}
	}
	return h.op, nil
}

// lookAgainTimeout is the time for finding out what came of a statement whose
// answer was lost, which may be because its own time ran out.
const lookAgainTimeout = 3 * time.Second

// queueOpenings adds the statement that makes new operations. What it returns
// is a time only: everything else about a new operation is known before.
func queueOpenings(batch *pgx.Batch, ws []*write) {
	statement := openSQL
	if slices.ContainsFunc(ws, func(w *write) bool { return w.opening.Review != nil || w.opening.Event == ledger.Doubt }) {
		statement = openAskingSQL
	}
	statement.queue(batch, openingArgs(ws), func(rows pgx.Rows) error {
		about := byID{writes: ws}
		return eachAnswer(rows, func(a *answer) {
			id, at := a.uuid(), a.time()
			if w := about.find(id); w != nil {
				w.facts, w.done = facts{at: at}, true
			}
		})
	})
}

// opened is a new operation as open.sql records it; restored is what is in force where
// it is in doubt.
func opened(o *ledger.Opening, restored *ledger.Restore, at time.Time) ledger.Operation {
	op := o.Operation
	op.State, _ = ledger.Next(ledger.New, o.Event)
	op.LastEvent, op.Effect, op.Revision = o.Event, ledger.EffectNone, 1
	op.CreatedAt, op.UpdatedAt = at, at
	op.Held, op.GiveUpAt = !o.Holds.Empty(), time.Time{}
	if o.GiveUp > 0 {
		op.GiveUpAt = at.Add(o.GiveUp.Truncate(time.Microsecond))
	}
	op.Stage = cmp.Or(op.Stage, ledger.StageReconcile)
	switch op.State {
	case ledger.Running:
		op.Effect, op.Attempt = ledger.EffectUnknown, 1
		op.FirstSentAt, op.LastSentAt = at, at
		op.LeaseExpiresAt = at.Add(o.Start.Lease.Truncate(time.Microsecond))
		if o.Start.Horizon > 0 {
			op.KeyHorizon = at.Add(o.Start.Horizon.Truncate(time.Microsecond))
		}
	case ledger.Pending:
		op.NextAttemptAt = at
	case ledger.Unknown:
		op.Effect, op.Reason, op.InDoubt = ledger.EffectUnknown, ledger.ReasonRestored, true
		op.FirstSentAt, op.LastSentAt = restored.LostFrom, restored.LostUntil
		op.DoubtedAt, op.NextAttemptAt = at, at
	default: // asks a person: nothing is planned
	}
	return op
}

// openingArgs are the arguments of open.sql.
func openingArgs(ws []*write) pgx.NamedArgs {
	var asking []*write
	for _, w := range ws {
		if w.opening.Review != nil {
			asking = append(asking, w)
		}
	}
	return pgx.NamedArgs{"lease_id": newUUID(), "openings": rows(ws), "reviews": rows(asking)}
}

func expiredKey(o *ledger.Opening) string {
	if o.ExpiredKeyReuse {
		return "reuse"
	}
	return "reject"
}

func hashOrNull(h *ledger.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}
