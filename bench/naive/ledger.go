package naive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
)

// hot is what a claim and its receipt are written with.
type hot interface {
	// claim fails with errTaken when the key is taken.
	claim(ctx context.Context, o ledger.Opening) (claimed, error)
	// confirm fails with ledger.ErrFenced when the operation has moved on.
	confirm(ctx context.Context, c ledger.Change) (confirmed, error)
}

type claimed struct {
	at, lease time.Time
	horizon   *time.Time
}

type confirmed struct {
	revision       int64
	at, windowEnds time.Time
}

var errTaken = errors.New("the key is taken")

// Ledger is a store with another way to write the hot steps. It is safe for
// concurrent use.
type Ledger struct {
	app.Ledger
	hot hot
}

// Steps writes each step as one transaction of several statements.
func Steps(store app.Ledger, pool *pgxpool.Pool) *Ledger { return &Ledger{store, steps{pool}} }

// Single writes each step as one statement.
func Single(store app.Ledger, pool *pgxpool.Pool) *Ledger { return &Ledger{store, single{pool}} }

// Open is that of the store. A key that is taken, and what is no claim, is the
// store's.
func (l *Ledger) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	if o.Event != ledger.Claim {
		return l.Ledger.Open(ctx, o)
	}
	c, err := l.hot.claim(ctx, o)
	if errors.Is(err, errTaken) {
		return l.Ledger.Open(ctx, o)
	}
	if err != nil {
		return ledger.Operation{}, false, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	op := o.Operation
	op.State, op.LastEvent, op.Effect = ledger.Running, ledger.Claim, ledger.EffectUnknown
	op.Attempt, op.Revision = 1, 1
	op.CreatedAt, op.UpdatedAt, op.FirstSentAt, op.LastSentAt = c.at, c.at, c.at, c.at
	op.LeaseExpiresAt = c.lease
	if c.horizon != nil {
		op.KeyHorizon = *c.horizon
	}
	return op, true, nil
}

// Apply is that of the store. What is no receipt of a running operation is the
// store's.
func (l *Ledger) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	if c.Event != ledger.Confirm || c.Operation.State != ledger.Running || c.Write != nil || c.Leased || c.Watch > 0 {
		return l.Ledger.Apply(ctx, c)
	}
	done, err := l.hot.confirm(ctx, c)
	switch {
	case errors.Is(err, ledger.ErrFenced):
		return ledger.Operation{}, err
	case err != nil:
		return ledger.Operation{}, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	op := c.Operation
	op.State, op.LastEvent, op.Effect, op.Reason, op.InDoubt = ledger.Succeeded, ledger.Confirm, ledger.EffectApplied, "", false
	op.ProviderReference, op.Receipt = c.ProviderReference, c.Receipt
	op.Revision, op.UpdatedAt, op.WindowEndsAt = done.revision, done.at, done.windowEnds
	op.LeaseExpiresAt = time.Time{}
	if op.Attempt == 1 {
		op.KeyHorizon = time.Time{}
	}
	return op, nil
}

// claimArgs are the parameters of a claim.
func claimArgs(o ledger.Opening) []any {
	expired := "reject"
	if o.ExpiredKeyReuse {
		expired = "reuse"
	}
	p := o.Operation
	about := ledger.EventContext{
		ActionType: p.ActionType, Run: p.Run,
		Decision: o.Verdict.Decision, Rule: p.Rule, PolicyVersion: p.PolicyVersion, Stage: p.Stage,
	}
	return []any{
		p.Tenant, p.ID, p.Key, p.KeySource, p.ActionType, p.AdapterVersion, p.ContractVersion,
		p.ArgsHash[:], p.RequestHash[:], o.Sealed, o.Start.ClaimID, o.Start.ProviderKey,
		p.RequestedBy, string(p.Run.AppendJSON(nil)), p.Run.RunID, p.IntentID,
		o.Start.Horizon.Microseconds(), o.Start.Lease.Microseconds(), o.Window.Microseconds(), expired,
		o.Provider, string(about.AppendJSON(nil, p.Key)), string(p.Stage), p.PolicyVersion, p.Rule,
	}
}

// contextArg is the place of the first event's context among them.
const contextArg = 21

// settleArgs are the parameters of a settlement in one statement.
func settleArgs(c ledger.Change) []any {
	return []any{
		c.Operation.Tenant, c.Operation.Key, c.Operation.ID, c.Operation.Attempt, c.Operation.Epoch,
		c.ProviderReference, string(ledger.StorableReceipt(c.Receipt)),
		c.Actor, ledger.StorableText(c.Detail), ledger.StorableText(c.AttemptOutcome),
	}
}

// steps is one transaction a step.
type steps struct{ pool *pgxpool.Pool }

func (s steps) claim(ctx context.Context, o ledger.Opening) (c claimed, err error) {
	args := claimArgs(o)
	return c, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var chain []byte
		err := tx.QueryRow(ctx, claimOperationSQL, args...).Scan(&c.at, &c.lease, &c.horizon, &chain)
		if errors.Is(err, pgx.ErrNoRows) {
			return errTaken
		}
		if err != nil {
			return err
		}
		p := o.Operation
		if _, err := tx.Exec(ctx, claimLeaseSQL, p.Tenant, uuid.NewString(), c.lease, p.Key); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, claimAuditSQL, p.Tenant, p.ID, p.Key, p.ArgsHash[:], p.RequestedBy, c.at, chain, args[contextArg])
		return err
	})
}

func (s steps) confirm(ctx context.Context, c ledger.Change) (done confirmed, err error) {
	return done, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		p := c.Operation
		var status, id, reference string
		var attempt, epoch int
		err := tx.QueryRow(ctx, settleReadSQL, p.Tenant, p.Key).Scan(&status, &id, &attempt, &epoch, &reference, &done.revision)
		if errors.Is(err, pgx.ErrNoRows) {
			return ledger.ErrFenced
		}
		if err != nil {
			return err
		}
		if status != string(ledger.Running) || id != p.ID || attempt != p.Attempt || epoch != p.Epoch ||
			reference != "" && reference != c.ProviderReference {
			return ledger.ErrFenced
		}
		done.revision++
		var chain []byte
		detail, outcome := ledger.StorableText(c.Detail), ledger.StorableText(c.AttemptOutcome)
		if err := tx.QueryRow(ctx, settleOperationSQL, p.Tenant, p.Key, c.ProviderReference, string(ledger.StorableReceipt(c.Receipt)),
			c.Actor, detail, outcome).Scan(&done.at, &done.windowEnds, &chain); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, settleAuditSQL, p.Tenant, p.ID, done.revision, p.Attempt, p.Epoch, p.ArgsHash[:],
			c.Actor, detail, outcome, done.at, c.ProviderReference, chain)
		return err
	})
}

// single is one statement a step.
type single struct{ pool *pgxpool.Pool }

func (s single) claim(ctx context.Context, o ledger.Opening) (c claimed, err error) {
	err = s.pool.QueryRow(ctx, singleClaimSQL, append(claimArgs(o), uuid.NewString())...).Scan(&c.at, &c.lease, &c.horizon)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, errTaken
	}
	return c, err
}

func (s single) confirm(ctx context.Context, c ledger.Change) (done confirmed, err error) {
	err = s.pool.QueryRow(ctx, singleSettleSQL, settleArgs(c)...).Scan(&done.revision, &done.at, &done.windowEnds)
	if errors.Is(err, pgx.ErrNoRows) {
		return done, ledger.ErrFenced
	}
	return done, err
}
