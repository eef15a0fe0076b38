package sqlaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/sqlaction"
	"github.com/onceward/onceward/internal/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m))
}

// A shop's database: what a statement can run into.
const shop = `
CREATE TABLE warehouses (id int PRIMARY KEY);
INSERT INTO warehouses VALUES (1);
CREATE TABLE orders (
    id           bigserial PRIMARY KEY,
    operation_id uuid NOT NULL,
    sku          varchar(20) NOT NULL,
    qty          int NOT NULL,
    warehouse    int NOT NULL REFERENCES warehouses DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT orders_sku UNIQUE (sku),
    CONSTRAINT orders_qty CHECK (qty > 0)
);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'closed on Sundays'; END $$;
CREATE TRIGGER closed BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.sku = 'sunday') EXECUTE FUNCTION refuse();
`

func shopTemplate() pgtest.Template {
	return pgtest.Template{Name: "shop", Prepare: func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, shop)
		return errors.Join(err, conn.Close(ctx))
	}}
}

const insertOrder = `
INSERT INTO orders (operation_id, sku, qty, warehouse) VALUES ($1, $2, $3, $4)
RETURNING id::text, json_build_object('order', id, 'sku', sku)`

const orderSchema = `{"type": "object", "additionalProperties": false, "required": ["sku", "qty"], "properties": {
  "sku": {"type": "string"}, "qty": {"type": "integer"}, "warehouse": {"type": "integer"}}}`

func orderSpec(timeout time.Duration) actions.Spec {
	return actions.Spec{
		Type: "shop.order.place", Version: "1", Description: "Place an order.", Schema: json.RawMessage(orderSchema),
		Contract: actions.Contract{Provider: "shop", Version: "1", Lookup: actions.LookupRules{NegativeReads: 1, ReadGap: 10 * time.Millisecond}},
		Timeout:  timeout,
	}
}

func orderParams(call actions.Call) ([]any, error) {
	order := struct {
		SKU       string `json:"sku"`
		Qty       int64  `json:"qty"`
		Warehouse int64  `json:"warehouse"`
	}{Warehouse: 1}
	if err := call.Arguments.Decode(&order); err != nil {
		return nil, err
	}
	return []any{call.OperationID, order.SKU, order.Qty, order.Warehouse}, nil
}

// target is a database, an action on it, and a view of what it holds.
type target struct {
	t    *testing.T
	url  string
	db   *sqlaction.Database
	conn *pgx.Conn // beside the action's own
}

// newTarget is a shop with the table of operation ids.
func newTarget(t *testing.T) *target {
	t.Helper()
	return targetAt(t, pgtest.NewDatabase(t, shopTemplate()), sqlaction.DatabaseOptions{CreateTable: true})
}

func targetAt(t *testing.T, url string, o sqlaction.DatabaseOptions) *target {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return &target{t: t, url: url, db: database(t, url, o), conn: conn}
}

func database(t *testing.T, url string, o sqlaction.DatabaseOptions) *sqlaction.Database {
	t.Helper()
	if o.ConnString == nil {
		o.ConnString = func(context.Context) (string, error) { return url, nil }
	}
	db, err := sqlaction.NewDatabase(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func declared(t *testing.T, db *sqlaction.Database, sql string, timeout time.Duration) *sqlaction.Remote {
	t.Helper()
	r, err := sqlaction.NewRemote(db, orderSpec(timeout), nil, sqlaction.Declared{SQL: sql, Params: orderParams})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// orders is the action that places an order.
func (g *target) orders() *sqlaction.Remote {
	g.t.Helper()
	return declared(g.t, g.db, insertOrder, 10*time.Second)
}

func (g *target) exec(sql string, args ...any) {
	g.t.Helper()
	if _, err := g.conn.Exec(g.t.Context(), sql, args...); err != nil {
		g.t.Fatal(err)
	}
}

func (g *target) count(sql string, args ...any) int {
	g.t.Helper()
	var n int
	if err := g.conn.QueryRow(g.t.Context(), sql, args...).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// wantHeld fails the test unless the database holds that many orders, and as
// many rows of operation ids.
func (g *target) wantHeld(n int) {
	g.t.Helper()
	orders, ids := g.count(`SELECT count(*) FROM orders`), g.count(`SELECT count(*) FROM onceward_operations`)
	if orders != n || ids != n {
		g.t.Errorf("the database holds %d orders and %d operation ids, want %d of each", orders, ids, n)
	}
}

func call(t *testing.T, arguments string) actions.Call {
	t.Helper()
	args, err := actions.ParseArguments([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{Tenant: "acme", OperationID: uuid.Must(uuid.NewV7()).String(), ProviderKey: "key0123456789abcdefghijklm", Arguments: args}
}

// execute makes an attempt as the dispatcher does: with a deadline.
func execute(t *testing.T, a actions.Adapter, c actions.Call) actions.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), a.Spec().Timeout)
	defer cancel()
	return a.Execute(ctx, c)
}

func lookup(t *testing.T, r *sqlaction.Remote, c actions.Call) actions.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return r.Lookup(ctx, actions.Query{Call: c})
}

func wantKind(t *testing.T, o actions.Outcome, kind actions.Kind, code string) {
	t.Helper()
	if o.Kind != kind || o.Failure.Code != code {
		t.Fatalf("outcome is %s %+v, want %s %s", o.Kind, o.Failure, kind, code)
	}
}

func wantFinding(t *testing.T, f actions.Finding, kind actions.FindingKind) {
	t.Helper()
	if f.Kind != kind || f.Detail == "" {
		t.Fatalf("finding is %s (%s), want %s", f.Kind, f.Detail, kind)
	}
}

// eventually polls until done, at most ten seconds.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// withOption adds a parameter to a connection URL.
func withOption(t *testing.T, raw, name, value string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// withDatabase changes the database of a connection URL.
func withDatabase(t *testing.T, raw, name string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// withUser changes the user of a connection URL.
func withUser(t *testing.T, raw, user string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}
