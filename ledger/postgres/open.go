package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// Open records a new operation under its key, with its first move, and returns
// it with created true. Where the key is taken it changes nothing and returns
// the operation that holds it, after comparing action type and arguments hash.
//
// It fails with *ledger.KeyReusedError when they differ (the holder is in the
// error), with ledger.ErrKeyExpired when the key is past its window for good,
// and with ledger.ErrUnavailable when the ledger did not answer: then nothing
// may be sent, and if the row was made after all, it ends as unknown.
func (s *Store) Open(ctx context.Context, o ledger.Opening) (op ledger.Operation, created bool, err error) {
	to, ok := ledger.Next(ledger.New, o.Event)
	if !ok {
		return ledger.Operation{}, false, fmt.Errorf("%w: %s of a new operation", ledger.ErrIllegalMove, o.Event)
	}
	args, err := openArgs(o, to)
	if err != nil {
		return ledger.Operation{}, false, err
	}
	// The second round is for a key that was freed between the two statements
	// of the first.
	for range 2 {
		ops, err := s.write(ctx, openSQL, args)
		if err != nil {
			return s.openedAfterAll(ctx, o, err)
		}
		if len(ops) == 1 {
			return ops[0], true, nil
		}
		existing, err := s.holder(ctx, o)
		if !errors.Is(err, ledger.ErrNotFound) {
			return existing, false, err
		}
	}
	return ledger.Operation{}, false, fmt.Errorf("%w: key %q comes and goes", ledger.ErrUnavailable, o.Operation.Key)
}

// holder returns the operation that holds the key of an opening, or why the
// opening is refused. ErrNotFound means that the key is free now.
func (s *Store) holder(ctx context.Context, o ledger.Opening) (ledger.Operation, error) {
	// A statement of its own: the insert does not see a winner that was
	// uncommitted when it began.
	existing, err := s.GetByKey(ctx, o.Operation.Tenant, o.Operation.Key)
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
	if err != nil {
		return ledger.Operation{}, err
	}
	if existing.State.Final() {
		if err := s.expired(ctx, existing); err != nil {
			return ledger.Operation{}, err
		}
	}
	if existing.ActionType != o.Operation.ActionType || existing.ArgsHash != o.Operation.ArgsHash {
		return ledger.Operation{}, &ledger.KeyReusedError{Existing: existing}
	}
	return existing, nil
}

// expired returns nil while a finished operation answers for its key. Past its
// window it returns ErrKeyExpired where the key is refused for good; otherwise
// it frees the key and returns ErrNotFound, as it does when the operation is
// gone.
func (s *Store) expired(ctx context.Context, op ledger.Operation) error {
	args := pgx.NamedArgs{"tenant": op.Tenant, "id": op.ID}
	var then string
	switch err := s.pool.QueryRow(ctx, expiredSQL, args).Scan(&then); {
	case errors.Is(err, pgx.ErrNoRows):
		return ledger.ErrNotFound
	case err != nil:
		return unavailable(err)
	case then == "":
		return nil
	case then == "reject":
		return ledger.ErrKeyExpired
	}
	// Where another opener frees it at this moment, there is nothing to do.
	if _, err := s.pool.Exec(ctx, retireSQL, args); err != nil {
		return unavailable(err)
	}
	return ledger.ErrNotFound
}

// openedAfterAll looks an opening up again whose answer was lost. Finding it
// is proof that this very call made it, since the id is ours alone.
func (s *Store) openedAfterAll(ctx context.Context, o ledger.Opening, cause error) (ledger.Operation, bool, error) {
	if !errors.Is(cause, ledger.ErrUnavailable) {
		return ledger.Operation{}, false, cause
	}
	ctx, cancel := lookAgain(ctx)
	defer cancel()
	if !s.visibleIsSafe(ctx) {
		return ledger.Operation{}, false, cause
	}
	op, err := s.row(ctx, getSQL, pgx.NamedArgs{"tenant": o.Operation.Tenant, "id": o.Operation.ID})
	if err != nil {
		return ledger.Operation{}, false, cause
	}
	return op, true, nil
}

// lookAgain is the time for finding out what came of a statement whose answer
// was lost, which may be because its own time ran out.
func lookAgain(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
}

func openArgs(o ledger.Opening, to ledger.State) (pgx.NamedArgs, error) {
	run, err := json.Marshal(o.Operation.Run)
	if err != nil {
		return nil, fmt.Errorf("ledger: run context: %w", err)
	}
	expired := "reject"
	if o.ExpiredKeyReuse {
		expired = "reuse"
	}
	args := pgx.NamedArgs{
		"tenant": o.Operation.Tenant, "id": o.Operation.ID, "key": o.Operation.Key, "key_source": o.Operation.KeySource,
		"action_type": o.Operation.ActionType, "adapter_version": o.Operation.AdapterVersion, "contract_version": o.Operation.ContractVersion,
		"args_hash": o.Operation.ArgsHash[:], "request_hash": hashOrNull(o.Operation.RequestHash), "sealed": o.Sealed,
		"status": to, "event": o.Event, "actor": o.Operation.RequestedBy, "run": string(run), "run_id": o.Operation.Run.RunID,
		"intent_id": o.Operation.IntentID, "distinct_from": o.Operation.DistinctFrom,
		"window_us": micros(o.Window), "expired_key": expired,
	}
	addStart(args, o.Start)
	addReview(args, o.Review)
	return args, nil
}

func addStart(args pgx.NamedArgs, start ledger.Start) {
	args["claim_id"] = nullIfEmpty(start.ClaimID)
	args["lease_us"] = micros(start.Lease)
	args["horizon_us"] = micros(start.Horizon)
	args["provider_key"] = start.ProviderKey
}

func addReview(args pgx.NamedArgs, r *ledger.ReviewOpening) {
	if r == nil {
		r = &ledger.ReviewOpening{}
	}
	args["review_id"] = nullIfEmpty(r.ID)
	args["review_reason"] = string(r.Reason)
	args["review_detail"] = ledger.StorableText(r.Detail)
	args["review_expires_us"] = micros(r.ExpiresIn)
}

func hashOrNull(h *ledger.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
