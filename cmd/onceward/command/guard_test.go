package command

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/guard/guardsql"
	"github.com/onceward/onceward/internal/pgtest"
)

func service(url string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*config), nil
}

// TestGuard is a person who finds out what a service that died did.
func TestGuard(t *testing.T) {
	url := pgtest.NewDatabase(t, pgtest.Template{Name: "guardcommand", Prepare: func(ctx context.Context, url string) error {
		db, err := service(url)
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, guardsql.Schema())
		return errors.Join(err, db.Close())
	}})
	db, err := service(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	begin := func(id string, hold time.Duration) {
		t.Helper()
		claims := guard.Claims{Tenant: "acme", OperationID: id, ActionType: "payments.refund.create", ArgumentsHash: strings.Repeat("a", 64), Attempt: 1}
		if e, err := guardsql.New(db).Begin(t.Context(), claims, hold); err != nil || e.State != guard.Begun {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	want := func(wantCode int, wanted string, args ...string) {
		t.Helper()
		code, out, errs := run(t, append(append([]string{"guard"}, args...), "--guard-database-url="+url)...)
		if code != wantCode || !strings.Contains(out+errs, wanted) {
			t.Errorf("guard %v: exit code %d, %q, %q; want %d and %q", args, code, out, errs, wantCode, wanted)
		}
	}
	want(0, "Nothing is unresolved.", "list")
	begin("op-died", 0)
	begin("op-working", time.Hour)
	want(0, "acme    op-died    payments.refund.create", "list")
	want(1, "operation op-working of tenant acme is not unresolved", "resolve", "acme", "op-working", "--not-performed")
	want(1, "is not unresolved", "resolve", "globex", "op-died", "--performed")
	want(2, "say either", "resolve", "acme", "op-died")
	want(2, "say either", "resolve", "acme", "op-died", "--performed", "--not-performed")
	want(2, "--limit", "list", "--limit=0")
	want(0, "it was performed", "resolve", "acme", "op-died", "--performed")
	want(0, "Nothing is unresolved.", "list")
	if code, out, errs := run(t, "guard", "list", "--guard-database-url=postgres://u:s3cret@h:port/x"); code != 2 || strings.Contains(out+errs, "s3cret") {
		t.Errorf("a bad URL: exit code %d, %q, %q", code, out, errs)
	}
}
