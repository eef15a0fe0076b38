package postgres

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// The statements of restores. Each is used by one method. Whether one is in force is
// decided where operations are recorded and corrected: open.sql and correct.sql.
var (
	//go:embed sql/restores.sql
	restoresSQL string
	//go:embed sql/restore_of.sql
	restoreOfSQL string
	//go:embed sql/restore_counts.sql
	restoreCountsSQL string
	//go:embed sql/restore_served.sql
	restoreServedSQL string
	//go:embed sql/restore_hold_off.sql
	restoreHoldOffSQL string
	//go:embed sql/restore_begin.sql
	restoreBeginSQL string
	//go:embed sql/restore_doubt.sql
	restoreDoubtSQL string
	//go:embed sql/restore_clear.sql
	restoreClearSQL string
	//go:embed sql/restore_end.sql
	restoreEndSQL string
)

// The events of restores.
const (
	restoreBegin = "restore_begin"
	restoreClear = "restore_clear"
	restoreEnd   = "restore_end"
)

var (
	errLostTime  = errors.New("ledger: a restore wants two times, the second not before the first and not in the future")
	errClearWhat = errors.New("ledger: a clearance wants a tenant or an action type")
	errClearWhy  = errors.New("ledger: a clearance wants a reason")
)

// lostClockSkew is how far the clock of who names the lost time may be ahead of ours.
const lostClockSkew = time.Minute

// BeginRestore puts the restore in force: from now on new operations are recorded in
// doubt, and what is open is in doubt. It returns how many operations of each state
// were moved. It is for the owner of the tables, on a ledger that nobody serves: one
// transaction, which reads all operations. To begin again, after another loss, is a
// restore of its own; what was cleared is in doubt again.
//
// Of r, LostFrom, LostUntil and BegunBy count. ledger.ErrServing: a service is
// connected, and nothing was changed.
func (s *Store) BeginRestore(ctx context.Context, r ledger.Restore) (moved map[ledger.State]int64, err error) {
	if r.LostFrom.IsZero() || r.LostUntil.Before(r.LostFrom) || r.LostUntil.After(time.Now().Add(lostClockSkew)) {
		return nil, errLostTime
	}
	detail := fmt.Sprintf("the ledger was restored: what was done from %s until %s is not known", r.LostFrom.UTC().Format(time.RFC3339), r.LostUntil.UTC().Format(time.RFC3339))
	args := pgx.NamedArgs{
		"id": newUUID(), "lost_from": r.LostFrom, "lost_until": r.LostUntil, "by": ledger.StorableText(r.BegunBy), "detail": detail,
	}
	begin := func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, restoreHoldOffSQL); err != nil {
			return err
		}
		var served int
		if err := tx.QueryRow(ctx, restoreServedSQL).Scan(&served); err != nil {
			return err
		}
		if served > 0 {
			return fmt.Errorf("%w: %d connections", ledger.ErrServing, served)
		}
		if _, err := tx.Exec(ctx, restoreBeginSQL, args); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, restoreDoubtSQL, args)
		if err != nil {
			return err
		}
		moved = map[ledger.State]int64{}
		var state ledger.State
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { moved[state] = n; return nil })
		return err
	}
	// For as long as it takes: a large ledger could never be recovered otherwise.
	err = unavailable(s.pool.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return notedOn(ctx, conn, restoreBegin, ledger.AllTenants, r.BegunBy, detail, ledger.EventContext{}, begin)
	}))
	if err != nil {
		return nil, err
	}
	return moved, nil
}

// ClearRestore ends what is in force for a tenant, an action type, or an action type of
// a tenant: new operations of it are claimed again. What was recorded in doubt stays so.
// ledger.ErrNotFound: no restore is in force.
func (s *Store) ClearRestore(ctx context.Context, c ledger.Clearance) error {
	switch {
	case c.ActionType == "" && (c.Tenant == "" || c.Tenant == ledger.AllTenants):
		return errClearWhat
	case c.Reason == "":
		return errClearWhy
	case c.Tenant == "":
		c.Tenant = ledger.AllTenants
	}
	what := "every action"
	if c.ActionType != "" {
		what = "action type " + c.ActionType
	}
	about := ledger.EventContext{ActionType: c.ActionType, Reason: ledger.StorableText(c.Reason)}
	return s.noted(ctx, restoreClear, c.Tenant, c.By, what+": "+c.Reason, about, func(tx pgx.Tx) error {
		return orNotFound(tx.Exec(ctx, restoreClearSQL, pgx.NamedArgs{
			"tenant": c.Tenant, "action_type": c.ActionType, "reason": ledger.StorableText(c.Reason), "by": ledger.StorableText(c.By),
		}))
	})
}

// EndRestore ends what is in force. What was recorded in doubt stays so.
// ledger.ErrNotFound: no restore is in force.
func (s *Store) EndRestore(ctx context.Context, by, reason string) error {
	about := ledger.EventContext{Reason: ledger.StorableText(reason)}
	return s.noted(ctx, restoreEnd, ledger.AllTenants, by, reason, about, func(tx pgx.Tx) error {
		return orNotFound(tx.Exec(ctx, restoreEndSQL, pgx.NamedArgs{"by": ledger.StorableText(by)}))
	})
}

// Restores returns the restores of this ledger, the latest first: those in force, or
// the last hundred of all.
func (s *Store) Restores(ctx context.Context, inForce bool) ([]ledger.Restore, error) {
	rows, err := s.pool.Query(ctx, restoresSQL, pgx.NamedArgs{"in_force": inForce})
	if err != nil {
		return nil, unavailable(err)
	}
	all, err := pgx.CollectRows(rows, scanRestore)
	return all, unavailable(err)
}

// RestoreCounts says how far a recovery is that began at a time. It reads all
// operations, for as long as that takes.
func (s *Store) RestoreCounts(ctx context.Context, since time.Time) (ledger.RestoreCounts, error) {
	var c ledger.RestoreCounts
	var last pgtype.Timestamptz
	err := s.pool.Pool.QueryRow(ctx, restoreCountsSQL, pgx.NamedArgs{"since": since}).Scan(&c.InDoubt, &c.WithPeople, &c.Recorded, &last)
	if last.Valid {
		c.LastRecorded = last.Time.UTC()
	}
	return c, unavailable(err)
}

// RestoreOf returns what is in force for an action of a tenant, or nil: of several
// restores the widest time that was lost, and the latest beginning.
func (s *Store) RestoreOf(ctx context.Context, tenant, actionType string) (*ledger.Restore, error) {
	var r ledger.Restore
	err := s.pool.QueryRow(ctx, restoreOfSQL, pgx.NamedArgs{"tenant": tenant, "action_type": actionType}).Scan(&r.LostFrom, &r.LostUntil, &r.BegunAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none, as a rule
	}
	if err != nil {
		return nil, unavailable(err)
	}
	r.LostFrom, r.LostUntil, r.BegunAt = r.LostFrom.UTC(), r.LostUntil.UTC(), r.BegunAt.UTC()
	return &r, nil
}

// inDoubtOf is an opening as a restored ledger records it: its key may be one that was
// forgotten. What would have been asked before it is sent, a person or a policy, is
// asked if it ever is.
func inDoubtOf(o ledger.Opening) *ledger.Opening {
	o.Event, o.Start, o.Review, o.Operation.RequestHash = ledger.Doubt, ledger.Start{}, nil, nil
	return &o
}

func scanRestore(row pgx.CollectableRow) (ledger.Restore, error) {
	var r ledger.Restore
	var ended pgtype.Timestamptz
	var clearances []byte
	err := row.Scan(&r.ID, &r.LostFrom, &r.LostUntil, &r.BegunAt, &r.BegunBy, &ended, &r.EndedBy, &clearances)
	if err != nil {
		return r, err
	}
	r.LostFrom, r.LostUntil, r.BegunAt = r.LostFrom.UTC(), r.LostUntil.UTC(), r.BegunAt.UTC()
	if ended.Valid {
		r.EndedAt = ended.Time.UTC()
	}
	var cleared []clearance
	err = json.Unmarshal(clearances, &cleared)
	for _, c := range cleared {
		r.Clearances = append(r.Clearances, ledger.Clearance(c))
	}
	return r, err
}

// clearance is a ledger.Clearance as restores.sql makes it.
type clearance struct {
	Tenant     string    `json:"tenant"`
	ActionType string    `json:"action_type"`
	Reason     string    `json:"reason"`
	By         string    `json:"by"`
	At         time.Time `json:"at"`
}
