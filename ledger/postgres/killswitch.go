package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// The statements of kill switches. Each is used by one method. What is stopped is
// decided where claims are made: open.sql and start.sql.
var (
	//go:embed sql/kill_switches.sql
	killSwitchesSQL string
	//go:embed sql/matching_switch.sql
	matchingSwitchSQL string
	//go:embed sql/set_kill_switch.sql
	setKillSwitchSQL string
	//go:embed sql/clear_kill_switch.sql
	clearKillSwitchSQL string
	//go:embed sql/await_claims.sql
	awaitClaimsSQL string
)

// The events of kill switches.
const (
	stop   = "stop"
	resume = "resume"
)

// claimsGap is between two tries to see that no claim is under way that began
// before a switch was set. A try keeps new claims waiting for a tenth of a second
// at most, so that one that hangs does not stop everybody.
const claimsGap = 50 * time.Millisecond

// KillSwitches returns what is stopped for a tenant: by its own switches and by
// those for all tenants, which come first.
func (s *Store) KillSwitches(ctx context.Context, tenant string) ([]ledger.KillSwitch, error) {
	rows, err := s.pool.Query(ctx, killSwitchesSQL, pgx.NamedArgs{"tenant": tenant})
	if err != nil {
		return nil, unavailable(err)
	}
	switches, err := pgx.CollectRows(rows, scanSwitch)
	return switches, unavailable(err)
}

// SetKillSwitch stops claims, and records that in the audit record. Every claim
// that begins from now on is refused, and when this returns without an error no
// claim is committed any more that began before. To set a switch again gives it
// another reason.
//
// ledger.ErrNotFound: there is no such tenant. With ledger.ErrUnavailable the
// switch may be set, and claims that began before may still be committed: set it
// again.
func (s *Store) SetKillSwitch(ctx context.Context, k ledger.KillSwitch) error {
	if k.ActionType != "" && k.Provider != "" {
		return errTwoTargets
	}
	if k.Reason == "" {
		return errNoReason
	}
	if err := s.turn(ctx, setKillSwitchSQL, stop, k); err != nil {
		return err
	}
	return s.awaitClaims(ctx)
}

// ClearKillSwitch lets claims go on, and records that in the audit record. The
// reason is why. ledger.ErrNotFound: that switch is not set.
func (s *Store) ClearKillSwitch(ctx context.Context, k ledger.KillSwitch) error {
	return s.turn(ctx, clearKillSwitchSQL, resume, k)
}

var (
	errTwoTargets = errors.New("ledger: a kill switch is for an action type or a provider, not for both")
	errNoReason   = errors.New("ledger: a kill switch wants a reason")
)

// turn sets or clears a switch, with its event.
func (s *Store) turn(ctx context.Context, statement, event string, k ledger.KillSwitch) error {
	about := ledger.EventContext{ActionType: k.ActionType, Reason: ledger.StorableText(k.Reason)}
	return s.noted(ctx, event, k.Tenant, k.SetBy, target(k)+": "+k.Reason, about, func(tx pgx.Tx) error {
		return orNotFound(tx.Exec(ctx, statement, pgx.NamedArgs{
			"tenant": k.Tenant, "action_type": k.ActionType, "provider": k.Provider,
			"reason": ledger.StorableText(k.Reason), "set_by": ledger.StorableText(k.SetBy),
		}))
	})
}

// noted does something about the installation, and records it in the audit record, in
// one transaction.
func (s *Store) noted(ctx context.Context, event, tenant, by, detail string, about ledger.EventContext, do func(pgx.Tx) error) error {
	return unavailable(s.pool.AcquireFunc(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return notedOn(ctx, conn, event, tenant, by, detail, about, do)
	}))
}

// notedOn is noted on a connection, for as long as ctx lasts.
func notedOn(ctx context.Context, conn *pgxpool.Conn, event, tenant, by, detail string, about ledger.EventContext, do func(pgx.Tx) error) error {
	delete(conn.Conn().PgConn().CustomData(), unreplicated)
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, noteSQL, noteArgs(tenant, newUUID().String(), event, by, detail, nil, contextJSON(about, "")))
		return err
	})
	if err != nil {
		return err
	}
	return safeCommit(conn)
}

// orNotFound turns a statement that touched no row into an error.
func orNotFound(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() == 0 {
		return ledger.ErrNotFound
	}
	return err
}

// target says what a switch is for, to people.
func target(k ledger.KillSwitch) string {
	switch {
	case k.ActionType != "":
		return "action type " + k.ActionType
	case k.Provider != "":
		return "provider " + k.Provider
	default:
		return "every action"
	}
}

// awaitClaims returns when every transaction is over that could have looked at the
// switches before a commit of the caller.
func (s *Store) awaitClaims(ctx context.Context) error {
	for {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, awaitClaimsSQL, pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if !isBusy(err) {
			return unavailable(err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the kill switch is set, and claims that began before are still under way: %w", ledger.ErrUnavailable, ctx.Err())
		case <-time.After(claimsGap):
		}
	}
}

// stopped is a *ledger.StoppedError if a switch stops an action, nil if none does.
func (s *Store) stopped(ctx context.Context, tenant, actionType, provider string) error {
	rows, err := s.pool.Query(ctx, matchingSwitchSQL, pgx.NamedArgs{"tenant": tenant, "action_type": actionType, "provider": provider})
	if err != nil {
		return unavailable(err)
	}
	k, err := pgx.CollectOneRow(rows, scanSwitch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return unavailable(err)
	}
	return &ledger.StoppedError{Switch: k}
}

func scanSwitch(row pgx.CollectableRow) (ledger.KillSwitch, error) {
	var k ledger.KillSwitch
	var at pgtype.Timestamptz
	err := row.Scan(&k.Tenant, &k.ActionType, &k.Provider, &k.Reason, &k.SetBy, &at)
	k.SetAt = at.Time.UTC()
	return k, err
}
