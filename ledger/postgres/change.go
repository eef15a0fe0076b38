package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// Start commits another attempt of an operation before its call: from pending
// by Claim (when it is due), from unknown by Replay (under the caller's lease
// and inside the key horizon). ErrFenced when anything of that no longer
// holds, the frozen request hash included; *ledger.StoppedError when a kill switch
// is set for it.
func (s *Store) Start(ctx context.Context, c ledger.Claiming) (ledger.Operation, error) {
	if err := legal(c.Operation.State, c.Event); err != nil {
		return ledger.Operation{}, err
	}
	args := pgx.NamedArgs{
		"from": c.Operation.State, "event": c.Event,
		"attempt": c.Operation.Attempt, "epoch": c.Operation.Epoch, "lease": c.Operation.Lease,
		"request_hash": c.RequestHash[:], "actor": c.Actor,
		"claim_id": uuidOf(c.Start.ClaimID), "provider_key": c.Start.ProviderKey,
		"lease_us": micros(c.Start.Lease), "horizon_us": micros(c.Start.Horizon),
		"number": c.Operation.Attempt + 1, "provider": c.Provider,
	}
	w := alteration(startSQL, c.Operation, args)
	w.looks = true
	op, err := guarded(ctx, s.alterations, w)
	if errors.Is(err, ledger.ErrFenced) {
		if stopped := s.stopped(ctx, c.Operation.Tenant, c.Operation.ActionType, c.Provider); stopped != nil {
			return ledger.Operation{}, stopped
		}
	}
	if !errors.Is(err, ledger.ErrUnavailable) {
		return op, err
	}
	// The answer was lost. Only our own claim id in the ledger proves that the
	// attempt is ours to make.
	claimed, found := s.findClaim(ctx, args)
	if w.unsure {
		s.observer.AmbiguousCommit(found)
	}
	if found == ledger.FoundCommitted {
		return claimed, nil
	}
	return ledger.Operation{}, err
}

// findClaim looks for a claim by its id.
func (s *Store) findClaim(ctx context.Context, args pgx.NamedArgs) (ledger.Operation, ledger.Found) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgainTimeout)
	defer cancel()
	if !s.visibleIsSafe(ctx) {
		return ledger.Operation{}, ledger.FoundUnknown
	}
	switch op, err := s.row(ctx, claimFoundSQL, args); {
	case err == nil:
		return op, ledger.FoundCommitted
	case errors.Is(err, ledger.ErrNotFound):
		return ledger.Operation{}, ledger.FoundLost
	default:
		return ledger.Operation{}, ledger.FoundUnknown
	}
}

// Apply makes one guarded move, with everything that belongs to it, in one
// transaction. ErrFenced when the operation has moved on or doubt came up that
// the caller did not know of; *ledger.WriteRefusedError when the statement
// that is the effect was refused. Nothing has changed then.
func (s *Store) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	if err := legal(c.Operation.State, c.Event); err != nil {
		return ledger.Operation{}, err
	}
	if moveTo(&c) == ledger.NeedsReview && c.Review == nil {
		return ledger.Operation{}, errNoReview
	}
	if c.Operation.State == ledger.NeedsReview && c.Decision == nil {
		return ledger.Operation{}, errNoDecision
	}
	if c.Write != nil {
		return s.applyWithWrite(ctx, c)
	}
	return guarded(ctx, s.writes, changes(&c))
}

var (
	errNoReview   = errors.New("ledger: a person is asked without a question")
	errNoDecision = errors.New("ledger: a review is left without an answer")
)

// guarded makes a write in its lane. Not done means fenced off.
func guarded(ctx context.Context, l *lane[*write], w *write) (ledger.Operation, error) {
	if err := errors.Join(l.do(ctx, w), w.err); err != nil {
		return ledger.Operation{}, err
	}
	if !w.done {
		return ledger.Operation{}, ledger.ErrFenced
	}
	return w.operation(), nil
}

// alter runs a guarded statement about an operation, with those of others.
func (s *Store) alter(ctx context.Context, statement string, op ledger.Operation, args pgx.NamedArgs) (ledger.Operation, error) {
	return guarded(ctx, s.alterations, alteration(statement, op, args))
}

// alteration is the write of a guarded statement about an operation.
func alteration(statement string, op ledger.Operation, args pgx.NamedArgs) *write {
	args["tenant"], args["key"], args["id"] = op.Tenant, op.Key, uuidOf(op.ID)
	return &write{tenant: op.Tenant, key: op.Key, statement: statement, args: args}
}

// applyWithWrite runs the effect and the move in one transaction: both happen
// or neither.
func (s *Store) applyWithWrite(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	var op ledger.Operation
	err := s.pool.AcquireFunc(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		delete(conn.Conn().PgConn().CustomData(), unreplicated)
		committing := false
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			row, err := runWrite(ctx, tx, c.Write)
			if err != nil {
				if ctx.Err() != nil || conn.Conn().IsClosed() {
					return err // no answer
				}
				return writeRefused(err)
			}
			c.ProviderReference, c.Receipt = row.Reference, []byte(row.Receipt)
			if c.Write.Redact != nil {
				c.Receipt = c.Write.Redact(c.Receipt)
			}
			w := changes(&c)
			move := &pgx.Batch{}
			queueChanges(move, []*write{w})
			if takers := takers([]*write{w}); len(takers) > 0 {
				queueHolds(move, takers)
			}
			if err := tx.SendBatch(ctx, move).Close(); err != nil {
				return err
			}
			if !w.done {
				return ledger.ErrFenced
			}
			op, committing = w.operation(), true
			return nil
		})
		if committing && ambiguous(err) {
			s.observer.AmbiguousCommit(ledger.FoundUnknown) // its caller looks
		}
		var pg *pgconn.PgError
		switch {
		case err == nil:
			return safeCommit(conn)
		case committing && errors.As(err, &pg):
			return writeRefused(err) // a deferred constraint
		}
		return err
	})
	var refused *ledger.WriteRefusedError
	if errors.As(err, &refused) {
		return ledger.Operation{}, refused
	}
	if err != nil {
		return ledger.Operation{}, unavailable(err)
	}
	return op, nil
}

// written is the one row that the effect's statement returns.
type written struct{ Reference, Receipt string }

func runWrite(ctx context.Context, tx pgx.Tx, w *ledger.Write) (written, error) {
	rows, err := tx.Query(ctx, w.SQL, w.Args...)
	if err != nil {
		return written{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[written])
}

// writeRefused is for a statement that the server has answered: what it cannot
// do, and what nobody can read, is rolled back.
func writeRefused(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &ledger.WriteRefusedError{Code: "02000", Message: "the statement returned no row"}
	case !errors.As(err, &pg):
		return &ledger.WriteRefusedError{Code: "42804", Message: "the statement does not take these arguments or does not return a reference and a receipt"}
	case away(pg.Code):
		return err
	}
	message := "condition " + pg.Code
	if pg.ConstraintName != "" {
		message = "constraint " + pg.ConstraintName
	}
	return &ledger.WriteRefusedError{Code: pg.Code, Message: message}
}

// Correct brings other arguments under the key of an operation that failed
// with effect not_applied, and returns it pending. existing is the operation
// as it was read. ErrFenced when it is no longer so. The correction's holds take
// the place of the old ones; *ledger.BudgetExhaustedError or
// *ledger.IntentHeldError when it cannot have them, and nothing has changed.
// *ledger.RestoredError while a restore is in force that began after it failed.
func (s *Store) Correct(ctx context.Context, existing ledger.Operation, o ledger.Opening) (ledger.Operation, error) {
	if err := legal(existing.State, ledger.Correct); err != nil {
		return ledger.Operation{}, err
	}
	if err := checkHolds(o.Holds); err != nil {
		return ledger.Operation{}, err
	}
	args := pgx.NamedArgs{
		"attempt": existing.Attempt, "old_hash": existing.ArgsHash[:],
		"args_hash": o.Operation.ArgsHash[:], "sealed": o.Sealed, "actor": o.Operation.RequestedBy,
		"adapter_version": o.Operation.AdapterVersion, "contract_version": o.Operation.ContractVersion,
		"held": !o.Holds.Empty(), "max_attempts": o.Operation.MaxAttempts, "give_up_us": micros(o.GiveUp),
		"amount": o.Operation.Amount, "currency": o.Operation.Currency, "stage": string(o.Operation.Stage),
		"policy_version": o.Operation.PolicyVersion, "rule": o.Operation.Rule, "context": contextJSON(openingContext(&o), existing.Key),
	}
	correct := func() (ledger.Operation, error) { return s.alter(ctx, correctSQL, existing, args) }
	if existing.Held || !o.Holds.Empty() {
		correct = func() (ledger.Operation, error) { return s.correctHolding(ctx, existing, o, args) }
	}
	op, err := correct()
	if errors.Is(err, ledger.ErrFenced) {
		restored, unread := s.RestoreOf(ctx, existing.Tenant, existing.ActionType)
		if unread == nil && restored != nil && restored.Forgot(existing) {
			return ledger.Operation{}, &ledger.RestoredError{Restore: *restored}
		}
	}
	return op, err
}

// AddEvidence records something learned that moves nothing, and returns the
// operation. ErrFenced when the operation has moved on, ErrNotFound when it is
// gone.
func (s *Store) AddEvidence(ctx context.Context, e ledger.Evidence) (ledger.Operation, error) {
	op, err := s.alter(ctx, evidenceSQL, e.Operation, pgx.NamedArgs{
		"from": e.Operation.State, "current": e.Operation.Attempt,
		"attempt": e.Attempt, "actor": e.Actor,
		"detail": ledger.StorableText(e.Detail), "incident": ledger.StorableText(e.Incident),
		"reference": ledger.StorableText(e.ProviderReference), "in_doubt": e.InDoubt,
	})
	if errors.Is(err, ledger.ErrFenced) {
		if _, gone := s.row(ctx, getSQL, pgx.NamedArgs{"tenant": e.Operation.Tenant, "id": e.Operation.ID}); gone != nil {
			return ledger.Operation{}, gone
		}
	}
	return op, err
}

func legal(from ledger.State, event ledger.Event) error {
	if _, ok := ledger.Next(from, event); !ok {
		return fmt.Errorf("%w: %s of a %s operation", ledger.ErrIllegalMove, event, from)
	}
	return nil
}

// queueChanges adds the guarded move of operations that exist.
func queueChanges(batch *pgx.Batch, ws []*write) {
	reviews := false
	for _, w := range ws {
		c := w.change
		reviews = reviews || c.Review != nil || c.Operation.State == ledger.NeedsReview
	}
	move := changeSQL
	if reviews {
		move = changeReviewsSQL
	}
	move.queue(batch, pgx.NamedArgs{"changes": rows(ws)}, func(rows pgx.Rows) error {
		about := byID{writes: ws}
		return eachAnswer(rows, func(a *answer) {
			id, f := a.uuid(), a.facts()
			if w := about.find(id); w != nil {
				w.facts, w.done = f, true
			}
		})
	})
}

// asked is the question that a change asks, or an empty one.
func asked(c *ledger.Change) ledger.ReviewOpening {
	if c.Review == nil {
		return ledger.ReviewOpening{}
	}
	return *c.Review
}

// answered is the answer that a change gives, or an empty one.
func answered(c *ledger.Change) ledger.ReviewClosing {
	if c.Decision == nil {
		return ledger.ReviewClosing{}
	}
	return *c.Decision
}

// moveTo is where a change leads. That it leads somewhere was checked before.
func moveTo(c *ledger.Change) ledger.State {
	to, _ := ledger.Next(c.Operation.State, c.Event)
	return to
}

// inDoubt is whether an operation is in doubt after a change: an unknown outcome
// is doubt, whatever the caller says.
func inDoubt(c *ledger.Change) bool { return c.InDoubt || moveTo(c) == ledger.Unknown }

// heldLease is the lease that a change is made under; negative: none.
func heldLease(c *ledger.Change) int32 {
	if !c.Leased {
		return -1
	}
	return int32(c.Operation.Lease)
}

// makeStorable makes a change such that the database takes its texts. There is a
// receipt where it succeeds, and nowhere else.
func makeStorable(c *ledger.Change) {
	for _, text := range []*string{&c.Reason, &c.ProviderReference, &c.Detail, &c.AttemptOutcome} {
		*text = ledger.StorableText(*text)
	}
	if moveTo(c) == ledger.Succeeded {
		c.Receipt = ledger.StorableReceipt(c.Receipt)
	} else {
		c.Receipt = nil
	}
}

// decisionOf is how a change decides a review, or nil.
func decisionOf(c *ledger.Change) []byte {
	if c.Decision == nil || c.Decision.Decision == "" {
		return nil
	}
	return []byte(c.Decision.Decision)
}

// failureJSON is a failure as it is stored, or nil.
func failureJSON(f *ledger.Failure) []byte {
	if f == nil {
		return nil
	}
	failure := *f
	failure.Message = ledger.StorableText(failure.Message)
	encoded, _ := json.Marshal(failure) // texts and flags: it cannot fail
	return encoded
}
