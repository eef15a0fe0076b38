package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// Charge returns a charge of an amount to a counter that never ends and may hold
// limit.
func Charge(counter, amount, limit string) ledger.Charge {
	return ledger.Charge{Budget: "budget", Subject: "tenant", Counter: counter, Kind: ledger.ChargeUse, Amount: amount, Limit: limit}
}

// Holding returns an opening with charges.
func Holding(o ledger.Opening, charges ...ledger.Charge) ledger.Opening {
	o.Holds.Charges = charges
	return o
}

// Fenced returns an opening with intents without a quiet time.
func Fenced(o ledger.Opening, intents ...string) ledger.Opening {
	for _, intent := range intents {
		o.Holds.Fences = append(o.Holds.Fences, ledger.Fence{Intent: intent})
	}
	return o
}

// AgeHolds moves all counters, holds and quiet times of a tenant into the past,
// as if that much time had gone by.
func (d Database) AgeHolds(t testing.TB, tenant string, by time.Duration) {
	t.Helper()
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error { return AgeHolds(ctx, conn, tenant, by) })
}

// AgeHolds is Database.AgeHolds on a connection of the owner, for tests that do
// it often.
func AgeHolds(ctx context.Context, conn *pgx.Conn, tenant string, by time.Duration) error {
	statements := []string{
		`UPDATE budget_counters SET ends = ARRAY(SELECT e - $2::interval FROM unnest(ends) WITH ORDINALITY AS e (e, n) ORDER BY n),
			charged_at = charged_at - $2::interval, sweep_at = sweep_at - $2::interval WHERE tenant_id = $1`,
		`UPDATE holds SET held_at = held_at - $2::interval WHERE tenant_id = $1`,
		`UPDATE intents SET quiet_until = quiet_until - $2::interval, previous_quiet_until = previous_quiet_until - $2::interval
			WHERE tenant_id = $1`,
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql, tenant, by); err != nil {
				return err
			}
		}
		return nil
	})
}

// Counted returns what a counter counts now, held by open operations or used, as
// the database writes it; empty when there is no such counter.
func (d Database) Counted(t testing.TB, tenant, counter string) string {
	t.Helper()
	var used string
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) (err error) {
		used, err = Counted(ctx, conn, tenant, counter)
		return err
	})
	return used
}

// Counted is Database.Counted on a connection of the owner, for tests that ask
// often.
func Counted(ctx context.Context, conn *pgx.Conn, tenant, counter string) (used string, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(max(u.used::text), '') FROM budget_counters c
		CROSS JOIN LATERAL (SELECT c.held + coalesce(sum(b.amount), 0) AS used FROM unnest(c.ends, c.amounts) AS b (ends, amount) WHERE b.ends > clock_timestamp()) u
		WHERE c.tenant_id = $1 AND c.counter = $2`, tenant, counter).Scan(&used)
	return used, err
}
