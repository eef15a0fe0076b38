package postgres

import (
	"cmp"
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
// holds, the frozen request hash included.
func (s *Store) Start(ctx context.Context, c ledger.Claiming) (ledger.Operation, error) {
	if err := legal(c.Operation.State, c.Event); err != nil {
		return ledger.Operation{}, err
	}
	args := pgx.NamedArgs{
		"tenant": c.Operation.Tenant, "id": c.Operation.ID, "from": c.Operation.State, "event": c.Event,
		"attempt": c.Operation.Attempt, "epoch": c.Operation.Epoch, "lease": c.Operation.Lease,
		"request_hash": c.RequestHash[:], "actor": c.Actor,
	}
	addStart(args, c.Start)
	op, err := s.writeOne(ctx, startSQL, args)
	if !errors.Is(err, ledger.ErrUnavailable) {
		return op, err
	}
	// The answer was lost. Only our own claim id in the ledger proves that the
	// attempt is ours to make.
	ctx, cancel := lookAgain(ctx)
	defer cancel()
	found := pgx.NamedArgs{"tenant": c.Operation.Tenant, "id": c.Operation.ID, "number": c.Operation.Attempt + 1, "claim_id": c.Start.ClaimID}
	var ours bool
	if !s.visibleIsSafe(ctx) || s.pool.QueryRow(ctx, claimFoundSQL, found).Scan(&ours) != nil || !ours {
		return ledger.Operation{}, err
	}
	op, again := s.row(ctx, getSQL, found)
	if again != nil || op.State != ledger.Running || op.Attempt != c.Operation.Attempt+1 {
		return ledger.Operation{}, err
	}
	return op, nil
}

// Apply makes one guarded move, with everything that belongs to it, in one
// transaction. ErrFenced when the operation has moved on or doubt came up that
// the caller did not know of; *ledger.WriteRefusedError when the statement
// that is the effect was refused. Nothing has changed then.
func (s *Store) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	if err := legal(c.Operation.State, c.Event); err != nil {
		return ledger.Operation{}, err
	}
	if c.Write != nil {
		return s.applyWithWrite(ctx, c)
	}
	args, err := changeArgs(c)
	if err != nil {
		return ledger.Operation{}, err
	}
	return s.writeOne(ctx, changeSQL, args)
}

// applyWithWrite runs the effect and the move in one transaction: both happen
// or neither.
func (s *Store) applyWithWrite(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	var op ledger.Operation
	err := s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
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
			args, err := changeArgs(c)
			if err != nil {
				return err
			}
			ops, err := queryOperations(ctx, tx, changeSQL, args)
			if err != nil {
				return err
			}
			if len(ops) == 0 {
				return ledger.ErrFenced
			}
			op, committing = ops[0], true
			return nil
		})
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
// as it was read. ErrFenced when it is no longer so.
func (s *Store) Correct(ctx context.Context, existing ledger.Operation, o ledger.Opening) (ledger.Operation, error) {
	if err := legal(existing.State, ledger.Correct); err != nil {
		return ledger.Operation{}, err
	}
	return s.writeOne(ctx, correctSQL, pgx.NamedArgs{
		"tenant": existing.Tenant, "id": existing.ID, "attempt": existing.Attempt, "old_hash": existing.ArgsHash[:],
		"args_hash": o.Operation.ArgsHash[:], "sealed": o.Sealed, "actor": o.Operation.RequestedBy,
		"adapter_version": o.Operation.AdapterVersion, "contract_version": o.Operation.ContractVersion,
	})
}

// AddEvidence records something learned that moves nothing, and returns the
// operation. ErrFenced when the operation has moved on, ErrNotFound when it is
// gone.
func (s *Store) AddEvidence(ctx context.Context, e ledger.Evidence) (ledger.Operation, error) {
	op, err := s.writeOne(ctx, evidenceSQL, pgx.NamedArgs{
		"tenant": e.Operation.Tenant, "id": e.Operation.ID, "from": e.Operation.State, "current": e.Operation.Attempt,
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

func changeArgs(c ledger.Change) (pgx.NamedArgs, error) {
	to, _ := ledger.Next(c.Operation.State, c.Event)
	args := pgx.NamedArgs{
		"tenant": c.Operation.Tenant, "id": c.Operation.ID, "from": c.Operation.State, "to": to, "event": c.Event,
		"attempt": c.Operation.Attempt, "epoch": c.Operation.Epoch,
		"leased": c.Leased, "lease": c.Operation.Lease, "knew_doubt": c.Operation.InDoubt, "knew_reference": c.Operation.ProviderReference,
		"actor": c.Actor, "detail": ledger.StorableText(c.Detail),
		"effect": c.Effect, "reason": ledger.StorableText(c.Reason),
		// An unknown outcome is doubt, whatever the caller says.
		"in_doubt":  c.InDoubt || to == ledger.Unknown,
		"reference": ledger.StorableText(c.ProviderReference), "receipt": nil, "failure": nil,
		"delay_us": micros(c.Delay), "bump": oneIf(c.BumpEpoch), "watch_us": micros(c.Watch), "reset_resolves": c.ResetResolves,
		"outcome": ledger.StorableText(c.AttemptOutcome), "evidence": ledger.StorableText(c.AttemptEvidence),
		"decided": "", "decision": nil, "decided_by": nil, "note": nil,
	}
	if to == ledger.Succeeded {
		args["receipt"] = string(ledger.StorableReceipt(c.Receipt))
	}
	if c.Failure != nil {
		failure := *c.Failure
		failure.Message = ledger.StorableText(failure.Message)
		encoded, err := json.Marshal(failure)
		if err != nil {
			return nil, fmt.Errorf("ledger: failure: %w", err)
		}
		args["failure"] = string(encoded)
	}
	if d := c.Decision; d != nil {
		args["decided"], args["decision"], args["note"] = d.ReviewID, d.Decision, ledger.StorableText(d.Note)
		args["decided_by"] = cmp.Or(d.By, c.Actor)
	}
	addReview(args, c.Review)
	return args, nil
}
