package replica

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
)

// Sabotage is a mistake that somebody could make in the ledger or its use. A campaign
// that does not find it proves nothing.
type Sabotage string

// The mistakes.
const (
	NoSabotage Sabotage = ""
	// Resend takes doubt for proof that nothing was applied: the very bug that
	// Onceward exists to prevent (L4).
	Resend Sabotage = "resend"
	// Mismatch does not compare arguments where the key is taken (L5).
	Mismatch Sabotage = "mismatch"
	// Forget tells of a receipt that was not recorded (L3).
	Forget Sabotage = "forget"
	// Rewrite gives duplicates another receipt than the first one (L6).
	Rewrite Sabotage = "rewrite"
	// Impatient believes an absence before the provider's settle time is over.
	Impatient Sabotage = "impatient"
)

// Sabotages are all of them.
func Sabotages() []Sabotage { return []Sabotage{Resend, Mismatch, Forget, Rewrite, Impatient} }

// wrap is the ledger with the mistake.
func (s Sabotage) wrap(l app.Ledger) app.Ledger {
	if s == NoSabotage {
		return l
	}
	return &broken{Ledger: l, how: s}
}

// broken is a ledger with a mistake.
type broken struct {
	app.Ledger
	how Sabotage
}

func (b *broken) Open(ctx context.Context, o ledger.Opening) (ledger.Operation, bool, error) {
	op, created, err := b.Ledger.Open(ctx, o)
	var reused *ledger.KeyReusedError
	if b.how == Mismatch && errors.As(err, &reused) {
		return reused.Existing, false, nil
	}
	if err == nil && !created {
		op = b.again(op)
	}
	return op, created, err
}

func (b *broken) GetByKey(ctx context.Context, tenant, key string) (ledger.Operation, error) {
	op, err := b.Ledger.GetByKey(ctx, tenant, key)
	return b.again(op), err
}

// again is an operation that is asked for once more.
func (b *broken) again(op ledger.Operation) ledger.Operation {
	if b.how == Rewrite {
		op.Receipt = bytes.Replace(op.Receipt, []byte(`"status":"succeeded"`), []byte(`"status":"repeated"`), 1)
	}
	return op
}

func (b *broken) Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error) {
	switch {
	case b.how == Resend && c.Event == ledger.Doubt:
		c.Event, c.Effect, c.Reason, c.InDoubt = ledger.Defer, ledger.EffectNotApplied, "", false
		c.Failure = &ledger.Failure{Code: "timeout", Message: "It will be tried again."}
	case b.how == Forget && c.Event == ledger.Confirm && c.Operation.State == ledger.Running && c.Write == nil:
		op := c.Operation
		op.State, op.Effect, op.ProviderReference, op.Receipt = ledger.Succeeded, ledger.EffectApplied, c.ProviderReference, c.Receipt
		op.LastEvent, op.SettledAt, op.UpdatedAt, op.Revision = ledger.Confirm, time.Now(), time.Now(), op.Revision+1
		return op, nil
	}
	return b.Ledger.Apply(ctx, c)
}

func (b *broken) LeaseUnknown(ctx context.Context, limit int, lease time.Duration) ([]ledger.Operation, error) {
	ops, err := b.Ledger.LeaseUnknown(ctx, limit, lease)
	if b.how == Impatient {
		for i := range ops {
			ops[i].DoubtedAt = ops[i].DoubtedAt.Add(-time.Hour)
			ops[i].NegativeReads = 100
		}
	}
	return ops, err
}
