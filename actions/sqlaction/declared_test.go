package sqlaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/sqlaction"
)

// nowhere is a database that is not contacted.
func nowhere(t *testing.T, table string) *sqlaction.Database {
	t.Helper()
	return database(t, "", sqlaction.DatabaseOptions{Table: table, ConnString: func(context.Context) (string, error) {
		t.Error("the connection string was read")
		return "", errors.New("not here")
	}})
}

func TestStatementsThatMayBeDeclared(t *testing.T) {
	t.Parallel()
	db := nowhere(t, "")
	for sql, fine := range map[string]bool{
		"INSERT INTO a VALUES (1) RETURNING 1":             true,
		" \n\t-- why\n/* and\nhow */ update a SET b = 1":   true,
		"with x AS (SELECT 1) SELECT 1":                    true,
		"(SELECT 1)":                                       true,
		"MERGE INTO a USING b ON true WHEN MATCHED DELETE": true,
		"DELETE FROM a":                                    true,
		"":                                                 false,
		"-- nothing":                                       false,
		"COMMIT":                                           false,
		"/* INSERT */ COMMIT":                              false,
		"CALL transfer($1)":                                false,
		"PREPARE TRANSACTION 'x'":                          false,
		"DO $$ BEGIN COMMIT; END $$":                       false,
		"TRUNCATE a":                                       false,
		"COPY a TO PROGRAM 'mail'":                         false,
		"SELECTION":                                        false,
		"; INSERT INTO a VALUES (1)":                       false,
	} {
		d := sqlaction.Declared{SQL: sql}
		_, remote := sqlaction.NewRemote(db, orderSpec(0), nil, d)
		_, local := sqlaction.NewDeclaredLocal(orderSpec(0), nil, d)
		if (remote == nil) != fine || (local == nil) != fine {
			t.Errorf("%q: remote %v, local %v; want fine %v", sql, remote, local, fine)
		}
		if remote != nil && !strings.Contains(remote.Error(), "shop.order.place") {
			t.Errorf("%q: %v does not name the action type", sql, remote)
		}
	}
}

// with renders a statement with these parameters.
func with(t *testing.T, table, sql string, params ...any) string {
	t.Helper()
	r, err := sqlaction.NewRemote(nowhere(t, table), orderSpec(0), nil, sqlaction.Declared{SQL: sql, Params: func(actions.Call) ([]any, error) { return params, nil }})
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Render(call(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is rendered is the same for the same request and differs for any other.
func TestRenderedRequest(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 9, 0, 0, 7, time.UTC)
	if got, want := with(t, "", "SELECT 1", "a", 7, nil), `{"table":"onceward_operations","sql":"SELECT 1","params":["text:a","int:7","null"]}`; got != want {
		t.Errorf("rendered %s, want %s", got, want)
	}
	same := [][]any{{7, int32(7), int64(7)}, {"1.50", json.Number("1.50"), json.RawMessage("1.50")}, {at, at.In(time.FixedZone("", 3600))}, {nil, []byte(nil), json.RawMessage(nil)}}
	for _, values := range same {
		for _, v := range values {
			if got, want := with(t, "", "SELECT 1", v), with(t, "", "SELECT 1", values[0]); got != want {
				t.Errorf("%T: rendered %s, want %s", v, got, want)
			}
		}
	}
	seen := map[string]bool{}
	others := [][]any{{}, {nil}, {"null"}, {""}, {"7"}, {7}, {7.5}, {true}, {"true"}, {[]byte("7")}, {"7", ""}, {"", "7"}, {[]string{"7"}}, {[]int64{7}}, {[]string{"7", "8"}}, {[]string{"7,8"}}, {at}, {at.Add(1)}, {at.Format(time.RFC3339Nano)}, {`a","text:b`}, {"a", "b"}}
	for _, values := range others {
		seen[with(t, "", "SELECT 1", values...)] = true
	}
	seen[with(t, "", "SELECT 2")] = true
	seen[with(t, "other", "SELECT 1")] = true
	if want := len(others) + 2; len(seen) != want {
		t.Errorf("%d requests render as %d", want, len(seen))
	}
}

func TestParametersOfOtherTypesAreRefused(t *testing.T) {
	t.Parallel()
	for _, v := range []any{map[string]any{}, []any{1}, struct{}{}, uint64(1), new(int), float32(1)} {
		d := sqlaction.Declared{SQL: "SELECT 1", Params: func(actions.Call) ([]any, error) { return []any{1, v}, nil }}
		r, err := sqlaction.NewRemote(nowhere(t, ""), orderSpec(0), nil, d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Render(call(t, `{}`)); err == nil || !strings.Contains(err.Error(), "$2") {
			t.Errorf("%T: %v", v, err)
		}
		wantKind(t, execute(t, r, call(t, `{}`)), actions.Rejected, "not_renderable")
		l, err := sqlaction.NewDeclaredLocal(orderSpec(0), nil, d)
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, l.Execute(t.Context(), call(t, `{}`)), actions.Rejected, "not_renderable")
	}
}

// Values arrive as they were given, whatever the column is.
func TestParametersArrive(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	at := time.Date(2026, 11, 2, 9, 0, 0, 7000, time.UTC)
	for cast, test := range map[string]struct {
		value any
		want  string
	}{
		"bigint": {json.Number("9007199254740993"), "9007199254740993"}, "numeric": {json.Number("12345678901234567890.12"), "12345678901234567890.12"},
		"int": {-7, "-7"}, "boolean": {true, "true"}, "text": {"ä'; --", "ä'; --"}, "jsonb": {json.RawMessage(`{"n": 1.50}`), `{"n": 1.50}`},
		"bytea": {[]byte{0, 255}, `\x00ff`}, "timestamptz": {at, "2026-11-02 09:00:00.000007+00"}, "uuid": {"0190b5a0-0000-7000-8000-000000000000", "0190b5a0-0000-7000-8000-000000000000"},
		"text[]": {[]string{"a,b", `"`}, `{"a,b","\""}`}, "bigint[]": {[]int64{1, 2}, "{1,2}"}, "double precision": {0.1, "0.1"}, "date": {"2026-11-02", "2026-11-02"},
		"smallint": {nil, "nothing"},
	} {
		r, err := sqlaction.NewRemote(g.db, orderSpec(0), nil, sqlaction.Declared{
			SQL:    `SELECT coalesce($1::` + cast + `::text, 'nothing'), json_build_object() FROM set_config('timezone', 'UTC', true)`,
			Params: func(actions.Call) ([]any, error) { return []any{test.value}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if o := execute(t, r, call(t, `{}`)); o.Kind != actions.Applied || o.Receipt.Reference != test.want {
			t.Errorf("%s: %s %q %+v, want %q", cast, o.Kind, o.Receipt.Reference, o.Failure, test.want)
		}
	}
}

// A local action hands its statement over, with the same parameters.
func TestDeclaredLocal(t *testing.T) {
	t.Parallel()
	l, err := sqlaction.NewDeclaredLocal(orderSpec(time.Second), nil, sqlaction.Declared{SQL: insertOrder, Params: orderParams})
	if err != nil {
		t.Fatal(err)
	}
	c := call(t, `{"sku": "lamp", "qty": 2}`)
	o := l.Execute(t.Context(), c)
	if o.Kind != actions.Applied || o.Write == nil || o.Write.SQL != insertOrder || len(o.Write.Args) != 4 || o.Write.Args[0] != c.OperationID || o.Write.Args[2] != int64(2) {
		t.Errorf("outcome is %s %+v", o.Kind, o.Write)
	}
}

// The contract that an action has when its spec says little.
func TestContractOfARemote(t *testing.T) {
	t.Parallel()
	spec := orderSpec(0)
	spec.Contract.Lookup = actions.LookupRules{}
	invalid := errors.New("no")
	r, err := sqlaction.NewRemote(nowhere(t, ""), spec, func(actions.Arguments) error { return invalid }, sqlaction.Declared{SQL: "SELECT 1"})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Spec()
	if !got.Contract.Lookup.Authoritative || got.Timeout != actions.DefaultTimeout || got.Contract.LateLanding != got.Timeout || got.Contract.Keys.Honoured {
		t.Errorf("contract is %+v, timeout %s", got.Contract, got.Timeout)
	}
	if _, err := actions.NewRegistry(r); err != nil {
		t.Error(err)
	}
	if err := r.Validate(actions.Arguments{}); !errors.Is(err, invalid) {
		t.Errorf("validate: %v", err)
	}
}
