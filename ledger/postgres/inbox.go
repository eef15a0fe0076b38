package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/ledger"
)

// The statements of the webhook inbox. Each is used by one method.
var (
	//go:embed sql/store_events.sql
	storeEventsSQL string
	//go:embed sql/lease_events.sql
	leaseEventsSQL string
	//go:embed sql/postpone_event.sql
	postponeEventSQL string
	//go:embed sql/close_event.sql
	closeEventSQL string
	//go:embed sql/sweep_events.sql
	sweepEventsSQL string
	//go:embed sql/referenced.sql
	referencedText string

	referencedSQL = withColumns(referencedText)
)

// Every method of this file fails with ledger.ErrNoInbox on a schema that is
// older than the inbox.

// StoreEvents takes in what a provider said to a tenant, all or nothing, and
// returns how many of the events are new: one that is there already, weighed or
// not, is left as it is. The tenant and provider of the events are those given.
//
// ledger.ErrNotFound: there is no such tenant. ledger.ErrUnavailable and
// ledger.ErrUnsafeCommit: they may be stored or not; to store them again is
// harmless.
func (s *Store) StoreEvents(ctx context.Context, tenant, provider string, events []ledger.InboxEvent) (stored int, err error) {
	// In one order, so that two who bring the same events wait for each other
	// once.
	events = slices.SortedFunc(slices.Values(events), func(a, b ledger.InboxEvent) int { return cmp.Compare(a.ID, b.ID) })
	n := len(events)
	ids, operations, references, outcomes := make([]string, n), make([]pgtype.UUID, n), make([]*string, n), make([]string, n)
	receipts, failures, details := make([]*string, n), make([]*string, n), make([]string, n)
	for i, e := range events {
		ids[i], operations[i], outcomes[i] = e.ID, uuidOf(e.OperationID), e.Outcome
		references[i] = nullIfEmpty(ledger.StorableText(e.Reference))
		if e.Receipt != nil {
			receipt := string(ledger.StorableReceipt(e.Receipt))
			receipts[i] = &receipt
		}
		failures[i] = nullIfEmpty(string(failureJSON(e.Failure)))
		details[i] = ledger.StorableText(e.Detail)
	}
	var known bool
	err = s.pool.AcquireFunc(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		delete(conn.Conn().PgConn().CustomData(), unreplicated)
		err := conn.QueryRow(ctx, storeEventsSQL, pgx.NamedArgs{
			"tenant": tenant, "provider": provider, "ids": ids, "operations": operations, "references": references,
			"outcomes": outcomes, "receipts": receipts, "failures": failures, "details": details,
		}).Scan(&known, &stored)
		if err != nil {
			return err
		}
		return safeCommit(conn)
	})
	switch {
	case err != nil:
		return 0, inboxError(err)
	case !known:
		return 0, ledger.ErrNotFound
	}
	return stored, nil
}

// LeaseEvents takes events that are due for the caller alone, at most limit,
// until the lease ends.
func (s *Store) LeaseEvents(ctx context.Context, limit int, lease time.Duration) ([]ledger.InboxEvent, error) {
	rows, err := s.pool.Query(ctx, leaseEventsSQL, pgx.NamedArgs{"limit": limit, "lease_us": micros(lease)})
	if err != nil {
		return nil, inboxError(err)
	}
	events, err := pgx.CollectRows(rows, scanEvent)
	return events, inboxError(err)
}

func scanEvent(row pgx.CollectableRow) (ledger.InboxEvent, error) {
	var e ledger.InboxEvent
	var receipt, failure *string
	var age int64
	err := row.Scan(&e.Tenant, &e.Provider, &e.ID, &e.OperationID, &e.Reference, &e.Outcome, &receipt, &failure, &e.Detail, &e.Looks, &age)
	if err != nil {
		return ledger.InboxEvent{}, err
	}
	e.Age = time.Duration(age) * time.Microsecond
	if receipt != nil {
		e.Receipt = []byte(*receipt)
	}
	if failure != nil {
		e.Failure = &ledger.Failure{}
		if err := json.Unmarshal([]byte(*failure), e.Failure); err != nil {
			return ledger.InboxEvent{}, fmt.Errorf("failure_json of event %s: %w", e.ID, err)
		}
	}
	return e, nil
}

// PostponeEvent puts a leased event off. It does nothing when the lease is no
// longer the caller's.
func (s *Store) PostponeEvent(ctx context.Context, e ledger.InboxEvent, delay time.Duration) error {
	return s.event(ctx, postponeEventSQL, e, pgx.NamedArgs{"delay_us": micros(delay)})
}

// CloseEvent ends a leased event: it was weighed, and note says what came of it.
// It does nothing when the lease is no longer the caller's.
func (s *Store) CloseEvent(ctx context.Context, e ledger.InboxEvent, note string) error {
	return s.event(ctx, closeEventSQL, e, pgx.NamedArgs{"note": ledger.StorableText(note)})
}

// event runs a statement about a leased event.
func (s *Store) event(ctx context.Context, sql string, e ledger.InboxEvent, args pgx.NamedArgs) error {
	args["tenant"], args["provider"], args["id"], args["looks"] = e.Tenant, e.Provider, e.ID, e.Looks
	_, err := s.pool.Exec(ctx, sql, args)
	return inboxError(err)
}

// Referenced returns the operations that some events name by a provider's
// reference and could still mean something for: in doubt, before a person, or
// finished and watched. It asks for all events at once, since it reads whatever
// is in doubt. An operation is there for every event of its tenant that names
// it, whatever its provider is.
func (s *Store) Referenced(ctx context.Context, events []ledger.InboxEvent) ([]ledger.Operation, error) {
	tenants, references := make([]string, len(events)), make([]string, len(events))
	for i, e := range events {
		tenants[i], references[i] = e.Tenant, e.Reference
	}
	ops, err := queryOperations(ctx, s.pool, referencedSQL, pgx.NamedArgs{"tenants": tenants, "references": references})
	return ops, unavailable(err)
}

// SweepEvents forgets events that were weighed longer than keep ago, at most
// limit, and returns how many. One that is sent again after that is new.
func (s *Store) SweepEvents(ctx context.Context, limit int, keep time.Duration) (swept int64, err error) {
	tag, err := s.pool.sweep(ctx, sweepEventsSQL, pgx.NamedArgs{"limit": limit, "keep_us": micros(keep)})
	return tag.RowsAffected(), inboxError(err)
}

// inboxError is unavailable for statements about the inbox.
func inboxError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == pgerrcode.UndefinedTable {
		return ledger.ErrNoInbox
	}
	return unavailable(err)
}
