package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
)

// The login that stores use. Roles belong to the whole server, so that test
// binaries on one server share it; the password guards nothing but test data.
const (
	serveLogin    = "onceward_test_serve"
	servePassword = "onceward_test_serve"
)

// Database is a migrated database of one test. It is dropped with the test.
// Its methods fail the test at once when the database does.
type Database struct {
	// ServeURL leads to it as a login that is a member of onceward_serve.
	ServeURL string
	// OwnerURL leads to it as the superuser, who owns the tables.
	OwnerURL string
}

// Template is the migrated database that tests copy, for pgtest.
func Template() pgtest.Template {
	return pgtest.Template{Name: "ledger", Prepare: prepare}
}

// NewDatabase makes a migrated database.
func NewDatabase(t testing.TB) Database {
	t.Helper()
	return At(t, pgtest.NewDatabase(t, Template()))
}

// At is the database that was made from Template and that its owner reaches
// at ownerURL, for tests with a server of their own (pgtest.NewServer).
func At(t testing.TB, ownerURL string) Database {
	t.Helper()
	u, err := url.Parse(ownerURL)
	if err != nil {
		t.Fatalf("ledgertest: owner's url: %v", err)
	}
	u.User = url.UserPassword(serveLogin, servePassword)
	return Database{ServeURL: u.String(), OwnerURL: ownerURL}
}

// NewStore makes a migrated database and a store that serves it.
func NewStore(t testing.TB) (*postgres.Store, Database) {
	t.Helper()
	db := NewDatabase(t)
	return db.Open(t), db
}

// Open connects another store, as another replica would. It is closed with the
// test.
func (d Database) Open(t testing.TB) *postgres.Store {
	t.Helper()
	return open(t, d.ServeURL)
}

func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatalf("ledgertest: %v", err)
	}
	t.Cleanup(store.Close)
	return store
}

// Owner connects as the superuser, and Serve as the stores' login. The
// connection is closed with the test.
func (d Database) Owner(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, d.OwnerURL)
}

// Serve connects as the stores' login.
func (d Database) Serve(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, d.ServeURL)
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("ledgertest: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("ledgertest: %v", err)
		}
	})
	return conn
}

// Exec runs statements without parameters as the owner.
func (d Database) Exec(t testing.TB, sql string) {
	t.Helper()
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// Tenant makes an active tenant, unless there is one, and returns its name.
func (d Database) Tenant(t testing.TB, name string) string {
	t.Helper()
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `INSERT INTO tenants (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING`, name)
		return err
	})
	return name
}

// Age moves everything about an operation into the past, as if that much time
// had gone by: leases and windows end, attempts become due. The revision stays.
func (d Database) Age(t testing.TB, op ledger.Operation, by time.Duration) {
	t.Helper()
	statements := []string{
		`UPDATE operations SET created_at = created_at - $3::interval, updated_at = updated_at - $3::interval,
			first_sent_at = first_sent_at - $3::interval, last_sent_at = last_sent_at - $3::interval,
			doubted_at = doubted_at - $3::interval, key_horizon = key_horizon - $3::interval,
			lease_expires_at = lease_expires_at - $3::interval, next_attempt_at = next_attempt_at - $3::interval,
			window_ends_at = window_ends_at - $3::interval, give_up_at = give_up_at - $3::interval, watch_until = watch_until - $3::interval,
			watch_next_at = watch_next_at - $3::interval, sweep_at = sweep_at - $3::interval - interval '30 minutes'
			WHERE tenant_id = $1 AND id = $2::uuid`,
		`UPDATE leases SET expires_at = expires_at - $3::interval
			WHERE tenant_id = $1 AND (SELECT idempotency_key FROM operations WHERE tenant_id = $1 AND id = $2::uuid) = ANY (idempotency_keys)`,
		`UPDATE reviews SET opened_at = opened_at - $3::interval, expires_at = expires_at - $3::interval,
			decided_at = decided_at - $3::interval, approved_at = approved_at - $3::interval WHERE tenant_id = $1 AND operation_id = $2::uuid`,
		`UPDATE audit_events SET at = at - $3::interval WHERE tenant_id = $1 AND operation_id = $2::uuid`,
		`UPDATE tombstones SET created_at = created_at - $3::interval WHERE tenant_id = $1 AND operation_id = $2::uuid`,
	}
	d.asOwner(t, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			// The guard refuses this to everybody who cannot switch triggers off.
			if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
				return err
			}
			for _, sql := range statements {
				if _, err := tx.Exec(ctx, sql, op.Tenant, op.ID, by); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// asOwner does something on an owner's connection of its own.
func (d Database) asOwner(t testing.TB, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, d.OwnerURL)
	if err != nil {
		t.Fatalf("ledgertest: %v", err)
	}
	if err := errors.Join(do(ctx, conn), conn.Close(ctx)); err != nil {
		t.Fatalf("ledgertest: %v", err)
	}
}

func prepare(ctx context.Context, url string) error {
	if _, err := migrations.Up(ctx, url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE onceward_serve`, serveLogin, servePassword))
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42710" || pg.Code == "23505") {
		err = nil // another binary's tests made it
	}
	return errors.Join(err, conn.Close(ctx))
}
