package postgres

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// takers are the writes of a transaction that take holds or may give some back:
// openings with holds, and changes into and out of an end of operations that have
// some. A transaction without one pays nothing.
func takers(ws []*write) []*write {
	var takers []*write
	for _, w := range ws {
		switch {
		case w.opening != nil && !w.opening.Holds.Empty(),
			w.change != nil && w.change.Operation.Held && (moveTo(w.change).Final() || w.change.Operation.State.Final()):
			takers = append(takers, w)
		}
	}
	return takers
}

// refusal is what an opening cannot have: a charge or a fence, by its place.
type refusal struct {
	charge, fence int // from 0; negative: not this
	used          string
	freeAt        time.Time
	holder        rowKey
	holderID      string
	quietUntil    time.Time
}

// queueHolds adds the statement that takes holds and gives them back. It is the
// last of a transaction. An opening that cannot have its holds was not made: it
// is not done any more, and has a refusal.
func queueHolds(batch *pgx.Batch, ws []*write) {
	var asking []*write
	for _, w := range ws {
		if w.opening != nil && w.opening.Review != nil && !w.corrects {
			asking = append(asking, w)
		}
	}
	args := pgx.NamedArgs{"operations": rows(ws), "reviews": rows(asking)}
	holdSQL.queue(batch, args, func(rows pgx.Rows) error {
		about := byID{writes: ws}
		var id pgtype.UUID
		var charge, fence *int
		var used, holderID, holderKey *string
		var freeAt, quietUntil *time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &charge, &used, &freeAt, &fence, &holderID, &holderKey, &quietUntil}, func() error {
			w := about.find(id)
			if w == nil {
				return nil
			}
			r := &refusal{charge: -1, fence: -1, freeAt: orZero(freeAt), quietUntil: orZero(quietUntil)}
			if charge != nil && used != nil {
				r.charge, r.used = *charge-1, *used
			}
			if fence != nil && holderID != nil && holderKey != nil {
				r.fence, r.holderID, r.holder = *fence-1, *holderID, rowKey{w.tenant, *holderKey}
			}
			w.done, w.refusal = false, r
			return nil
		})
		return err
	})
}

// sameHolds reports whether what one opening was refused is refused to another.
func sameHolds(a, b *ledger.Opening) bool {
	return a.Operation.DistinctFrom == b.Operation.DistinctFrom && reflect.DeepEqual(a.Holds, b.Holds)
}

// whyRefused makes the error of a refused opening. It is nil when nobody holds
// its intent any more.
func (s *Store) whyRefused(ctx context.Context, o *ledger.Opening, r *refusal) error {
	if r.charge >= 0 {
		return &ledger.BudgetExhaustedError{Use: ledger.BudgetUse{Charge: o.Holds.Charges[r.charge], Used: r.used, FreeAt: r.freeAt}}
	}
	if r.fence < 0 {
		return errRefusedForNothing
	}
	held, err := s.intentHeld(ctx, o.Holds.Fences[r.fence].Intent, r.holder, r.holderID, r.quietUntil)
	if err != nil || held == nil {
		return err
	}
	return held
}

var errRefusedForNothing = errors.New("ledger: holds were refused without a reason")

// intentHeld reads who holds an intent. It is nil when the holder is not in the
// ledger any more and is no reason to wait.
func (s *Store) intentHeld(ctx context.Context, intent string, key rowKey, id string, quietUntil time.Time) (*ledger.IntentHeldError, error) {
	h, err := s.holder(ctx, key.tenant, key.key)
	switch {
	case err == nil && h.op.ID == id:
	case err != nil && !errors.Is(err, ledger.ErrNotFound):
		return nil, err
	case quietUntil.IsZero():
		return nil, nil
	default:
		// It answers for its key no longer than for its window; the quiet time may
		// be longer.
		h.op = ledger.Operation{Tenant: key.tenant, ID: id, Key: key.key, State: ledger.Succeeded, Effect: ledger.EffectApplied}
	}
	return &ledger.IntentHeldError{Intent: intent, Holder: h.op, QuietUntil: quietUntil}, nil
}

// correctHolding makes a correction that takes holds, in a transaction of its
// own: where it cannot have them everything is as it was.
func (s *Store) correctHolding(ctx context.Context, existing ledger.Operation, o ledger.Opening, args pgx.NamedArgs) (ledger.Operation, error) {
	args["tenant"], args["key"], args["id"] = existing.Tenant, existing.Key, uuidOf(existing.ID)
	o.Operation.Tenant, o.Operation.Key, o.Operation.ID = existing.Tenant, existing.Key, existing.ID
	if err := s.plainlyNotCorrected(ctx, existing, &o); err != nil {
		return ledger.Operation{}, err
	}
	w := opens(&o)
	w.corrects = true
	err := s.pool.AcquireFunc(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		delete(conn.Conn().PgConn().CustomData(), unreplicated)
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue(correctSQL, args).Query(w.take)
			queueHolds(batch, []*write{w})
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			if !w.done {
				return ledger.ErrFenced // or refused: rolled back as well
			}
			return nil
		})
		if err != nil {
			return err
		}
		return safeCommit(conn)
	})
	switch {
	case w.refusal != nil && errors.Is(err, ledger.ErrFenced):
		if err := s.whyRefused(ctx, &o, w.refusal); err != nil {
			s.remember(existing.Tenant, err)
			return ledger.Operation{}, err
		}
		return ledger.Operation{}, ledger.ErrFenced // its holder is gone: as good as moved on
	case err != nil:
		return ledger.Operation{}, unavailable(err)
	}
	return w.operation(), nil
}

// BudgetUse returns what the counters of some charges hold now, in their order,
// and when the amounts fit that do not fit now. What the operation without holds
// itself (empty: none) is left out: it is not charged twice. It is a reading: only
// Open decides. The charges are checked as Open does.
func (s *Store) BudgetUse(ctx context.Context, tenant string, charges []ledger.Charge, without string) ([]ledger.BudgetUse, error) {
	if err := checkHolds(ledger.Holds{Charges: charges}); err != nil || len(charges) == 0 {
		return nil, err
	}
	counters, amounts, mosts := make([]string, len(charges)), make([]string, len(charges)), make([]string, len(charges))
	for i, c := range charges {
		counters[i], amounts[i], mosts[i] = c.Counter, c.Amount, c.Limit
	}
	rows, err := s.pool.Query(ctx, budgetUseSQL, pgx.NamedArgs{"tenant": tenant, "counters": counters, "amounts": amounts, "mosts": mosts, "without": uuidOf(without)})
	if err != nil {
		return nil, unavailable(err)
	}
	uses := make([]ledger.BudgetUse, 0, len(charges))
	var used string
	var freeAt *time.Time
	_, err = pgx.ForEachRow(rows, []any{&used, &freeAt}, func() error {
		uses = append(uses, ledger.BudgetUse{Charge: charges[len(uses)], Used: used, FreeAt: orZero(freeAt)})
		return nil
	})
	return uses, unavailable(err)
}

// IntentHolder returns who holds the first of some fences that is closed to an
// operation that is distinct from distinctFrom (empty: from none), or nil where
// all are free. It is a reading: only Open decides.
func (s *Store) IntentHolder(ctx context.Context, tenant string, fences []ledger.Fence, distinctFrom string) (*ledger.IntentHeldError, error) {
	if err := checkHolds(ledger.Holds{Fences: fences}); err != nil || len(fences) == 0 {
		return nil, err
	}
	intents := make([]string, len(fences))
	for i, f := range fences {
		intents[i] = f.Intent
	}
	var intent, id, key string
	var quietUntil *time.Time
	err := s.pool.QueryRow(ctx, intentHolderSQL, pgx.NamedArgs{"tenant": tenant, "intents": intents, "distinct_from": uuidOf(distinctFrom)}).
		Scan(&intent, &id, &key, &quietUntil)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, unavailable(err)
	}
	return s.intentHeld(ctx, intent, rowKey{tenant, key}, id, orZero(quietUntil))
}
