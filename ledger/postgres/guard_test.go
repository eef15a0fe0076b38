package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// The database's list of legal moves is ledger.Moves, for each of the triples
// that can be made of states and events.
func TestMoveAllowedIsTheStateMachine(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	froms := append([]ledger.State{ledger.New, "no such state"}, ledger.States()...)
	rows, err := db.Owner(t).Query(t.Context(), `SELECT f, e, s, operation_move_allowed(f, e, s)
		FROM unnest($1::text[]) f, unnest($2::text[]) e, unnest($1::text[]) s`, froms, append(ledger.Events(), "", "no such event"))
	if err != nil {
		t.Fatal(err)
	}
	var m ledger.Move
	var allowed bool
	tag, err := pgx.ForEachRow(rows, []any{&m.From, &m.Event, &m.To, &allowed}, func() error {
		if legal := slices.Contains(ledger.Moves(), m); allowed != legal {
			t.Errorf("the database allows %q by %q to %q: %v; the state machine: %v", m.From, m.Event, m.To, allowed, legal)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(froms) * len(froms) * (len(ledger.Events()) + 2); tag.RowsAffected() != int64(want) {
		t.Errorf("compared %d triples, want %d", tag.RowsAffected(), want)
	}
}

// Every illegal move is tried on a row in every state, by those who serve and
// by the owner of the tables.
func TestIllegalMovesAreRefusedWhoeverTries(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	writers := map[string]*pgx.Conn{"serving role": db.Serve(t), "owner": db.Owner(t)}
	for _, state := range ledger.States() {
		op := ledgertest.InState(t, store, acme, state)
		unchanged(t, db, op, "an illegal move", func() {
			for who, conn := range writers {
				for _, event := range ledger.Events() {
					for _, to := range ledger.States() {
						if slices.Contains(ledger.Moves(), ledger.Move{From: state, Event: event, To: to}) || (to == state && event == op.LastEvent) {
							continue
						}
						err := update(t, conn, op, fmt.Sprintf(`status = '%s', last_event = '%s', revision = revision + 1`, to, event))
						wantRefused(t, fmt.Sprintf("%s: %s by %s to %s", who, state, event, to), err)
					}
				}
			}
		})
	}
}

func TestIllegalBirthsAreRefused(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	conn := db.Serve(t)
	op := ledgertest.InState(t, store, acme, ledger.Running)
	const insert = `INSERT INTO operations SELECT (r).* FROM (
		SELECT jsonb_populate_record(o, $3::jsonb || jsonb_build_object('id', gen_random_uuid(), 'idempotency_key', gen_random_uuid())) AS r
		FROM operations o WHERE tenant_id = $1 AND id = $2::uuid) born`
	// The statement itself is sound.
	if _, err := conn.Exec(t.Context(), insert, op.Tenant, op.ID, `{}`); err != nil {
		t.Fatalf("a legal birth: %v", err)
	}
	var births []string
	for _, event := range ledger.Events() {
		for _, state := range ledger.States() {
			if !slices.Contains(ledger.Moves(), ledger.Move{From: ledger.New, Event: event, To: state}) {
				births = append(births, fmt.Sprintf(`{"last_event":%q,"status":%q}`, event, state))
			}
		}
	}
	for _, column := range []string{"arguments_sealed", "lease_expires_at", "claim_id", "provider_key", "request_hash"} {
		births = append(births, fmt.Sprintf(`{%q:null}`, column))
	}
	births = append(births, `{"effect":"none"}`, `{"args_hash":"\\x00"}`, `{"request_hash":"\\x00"}`, `{"retention":"0"}`,
		`{"key_source":"other"}`, `{"expired_key":"other"}`, `{"result_json":{}}`, `{"window_ends_at":"2030-01-01"}`,
		`{"revision":2}`, `{"epoch":1}`, `{"attempt":2}`, `{"attempt":0}`,
		`{"last_event":"record","status":"pending","attempt":1}`)
	for _, birth := range births {
		_, err := conn.Exec(t.Context(), insert, op.Tenant, op.ID, birth)
		wantRefused(t, "born "+birth, err)
	}
	if n := db.Count(t, `SELECT count(*) FROM operations`); n != 2 {
		t.Errorf("there are %d operations, want the first and the legal birth", n)
	}
}

// What no change may touch, with or without a move.
func TestProtectedColumns(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	writers := map[string]*pgx.Conn{"serving role": db.Serve(t), "owner": db.Owner(t)}
	inDoubt := ledgertest.Moved(t, store, ledgertest.Leased(t, store, inState(t, store, ledger.Unknown)), ledger.Replay)
	if !inDoubt.InDoubt || inDoubt.State != ledger.Running {
		t.Fatalf("a replayed attempt is %s, in doubt %v", inDoubt.State, inDoubt.InDoubt)
	}
	const failing = `status = 'failed', last_event = 'refuse', effect = 'not_applied', error_json = '{}', in_doubt = false, window_ends_at = now(), arguments_sealed = NULL`
	const pending = `status = 'pending', last_event = 'defer', effect = 'not_applied', in_doubt = false`
	const correcting = `status = 'pending', last_event = 'correct', error_json = NULL, window_ends_at = NULL, arguments_sealed = '\x01'`
	const confirming = `status = 'succeeded', last_event = 'confirm', effect = 'applied', result_json = '{}', window_ends_at = now(), arguments_sealed = NULL`
	for _, c := range []struct {
		what string
		op   ledger.Operation
		set  string
	}{
		{"receipt of another key", inState(t, store, ledger.Running), confirming + `, idempotency_key = 'other'`},
		{"receipt of another id", inState(t, store, ledger.Running), confirming + `, id = gen_random_uuid()`},
		{"receipt of another tenant", inState(t, store, ledger.Running), confirming + `, tenant_id = 'other'`},
		{"receipt of another attempt", inState(t, store, ledger.Running), confirming + `, attempt = 2`},
		{"receipt of other arguments", inState(t, store, ledger.Running), confirming + `, args_hash = sha256('other')`},
		{"receipt of another request", inState(t, store, ledger.Running), confirming + `, request_hash = sha256('other')`},
		{"receipt in doubt", inState(t, store, ledger.Running), confirming + `, in_doubt = true`},
		{"receipt without an effect", inState(t, store, ledger.Running), strings.Replace(confirming, `'applied'`, `'unknown'`, 1)},
		{"receipt that is none", inState(t, store, ledger.Running), `status = 'succeeded', last_event = 'confirm', effect = 'applied', window_ends_at = now(), arguments_sealed = NULL`},
		{"receipt without an end", inState(t, store, ledger.Running), `status = 'succeeded', last_event = 'confirm', effect = 'applied', result_json = '{}', arguments_sealed = NULL`},
		{"receipt with arguments", inState(t, store, ledger.Running), `status = 'succeeded', last_event = 'confirm', effect = 'applied', result_json = '{}', window_ends_at = now()`},
		{"identity: tenant", inState(t, store, ledger.Running), `tenant_id = 'other'`},
		{"identity: id", inState(t, store, ledger.Running), `id = gen_random_uuid()`},
		{"identity: key", inState(t, store, ledger.Succeeded), `idempotency_key = 'other'`},
		{"identity: action type", inState(t, store, ledger.Pending), `action_type = 'other'`},
		{"identity: requester", inState(t, store, ledger.NeedsReview), `requested_by = 'other'`},
		{"identity: birth", inState(t, store, ledger.Running), `created_at = created_at - interval '1 second'`},
		{"identity, with a move", inState(t, store, ledger.Running), pending + `, idempotency_key = 'other'`},
		{"attempt without a move", inState(t, store, ledger.Running), `attempt = attempt + 1`},
		{"attempt jumps", inState(t, store, ledger.Pending), `status = 'running', last_event = 'claim', effect = 'unknown', attempt = attempt + 2`},
		{"attempt stands still", inState(t, store, ledger.Pending), `status = 'running', last_event = 'claim', effect = 'unknown'`},
		{"attempt goes back", inState(t, store, ledger.Running), pending + `, attempt = attempt - 1`},
		{"epoch without a move", inState(t, store, ledger.Unknown), `epoch = epoch + 1`},
		{"epoch jumps", inState(t, store, ledger.Running), pending + `, epoch = epoch + 2`},
		{"epoch goes back", ledgertest.Moved(t, store, inState(t, store, ledger.Failed), ledger.Correct), `status = 'failed', last_event = 'cancel', effect = 'not_applied', epoch = epoch - 1`},
		{"epoch without proof", inState(t, store, ledger.Unknown), `status = 'running', last_event = 'replay', attempt = attempt + 1, epoch = epoch + 1`},
		{"arguments without a move", inState(t, store, ledger.Pending), `args_hash = sha256('other')`},
		{"arguments with a move", inState(t, store, ledger.Running), pending + `, args_hash = sha256('other')`},
		{"correction of what was not tried", withdrawn(t, store), correcting + `, args_hash = sha256('other')`},
		{"request without a move", inState(t, store, ledger.Running), `request_hash = sha256('other')`},
		{"request with a move", inState(t, store, ledger.Running), pending + `, request_hash = sha256('other')`},
		{"receipt rewritten", inState(t, store, ledger.Succeeded), `result_json = '{"id":"other"}'`},
		{"receipt respelled", inState(t, store, ledger.Succeeded), `result_json = result_json::jsonb::json`},
		{"receipt dropped", inState(t, store, ledger.Succeeded), `result_json = NULL`},
		{"reference rewritten", inState(t, store, ledger.Succeeded), `provider_reference = 'other'`},
		{"reference dropped", inState(t, store, ledger.Succeeded), `provider_reference = NULL`},
		{"failure rewritten", inState(t, store, ledger.Failed), `error_json = '{"code":"other"}'`},
		{"effect without a move", inState(t, store, ledger.Failed), `effect = 'none'`},
		{"event without a move", inState(t, store, ledger.Unknown), `last_event = 'defer'`},
		{"window shortened", inState(t, store, ledger.Succeeded), `window_ends_at = now()`},
		{"window on the unfinished", inState(t, store, ledger.Unknown), `window_ends_at = now()`},
		{"doubt cleared while running", inDoubt, `in_doubt = false`},
		{"doubt cleared while unknown", inState(t, store, ledger.Unknown), `in_doubt = false`},
		{"doubt cleared by a refusal", inDoubt, failing},
		{"doubt cleared by a deferral", inDoubt, pending},
	} {
		unchanged(t, db, c.op, c.what, func() {
			for who, conn := range writers {
				err := update(t, conn, c.op, c.set+`, revision = revision + 1`)
				var pg *pgconn.PgError
				if who == "serving role" && errors.As(err, &pg) && pg.Code == "42501" {
					continue // a column that it may not even touch
				}
				wantRefused(t, c.what+", "+who, err)
			}
		})
	}
	for _, set := range []string{`reason = 'x'`, `reason = 'x', revision = revision + 2`, `reason = 'x', revision = revision - 1`} {
		op := inState(t, store, ledger.Unknown)
		unchanged(t, db, op, set, func() { wantRefused(t, set, update(t, writers["serving role"], op, set)) })
	}
}

// A doubtful row that is named unknown, yet claims to be in no doubt, would let
// a later refusal close it.
func TestUnknownIsAlwaysInDoubt(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Running)
	err := update(t, db.Serve(t), op, `status = 'unknown', last_event = 'doubt', in_doubt = false, revision = revision + 1`)
	wantRefused(t, "an unknown operation without doubt", err)
	moved, err := store.Apply(t.Context(), ledger.Change{Operation: op, Event: ledger.Doubt, Effect: ledger.EffectUnknown})
	if err != nil || !moved.InDoubt {
		t.Errorf("a doubt whose author forgot the flag: in doubt %v, %v", moved.InDoubt, err)
	}
}

func TestLaw08_UnfinishedAndFreshRowsAreNotDeleted(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	writers := map[string]*pgx.Conn{"serving role": db.Serve(t), "owner": db.Owner(t)}
	rows := map[string]ledger.Operation{}
	for _, state := range ledger.States() {
		op := inState(t, store, state) // Succeeded and Failed are inside their window
		if !state.Final() {
			db.Age(t, op, 100*365*24*time.Hour)
		}
		rows[string(state)] = op
	}
	watched := ledgertest.Change(inState(t, store, ledger.Unknown), ledger.Refuse)
	watched.Watch = 1000 * 24 * time.Hour
	op, err := store.Apply(t.Context(), watched)
	if err != nil {
		t.Fatal(err)
	}
	db.Age(t, op, 2*ledgertest.Window)
	rows["past its window, still watched"] = op
	for name, op := range rows {
		unchanged(t, db, op, "deleting a row that is "+name, func() {
			for who, conn := range writers {
				_, err := conn.Exec(t.Context(), `DELETE FROM operations WHERE tenant_id = $1 AND id = $2::uuid`, op.Tenant, op.ID)
				wantRefused(t, who+" deletes what is "+name, err)
			}
		})
	}
}

func inState(t *testing.T, store *postgres.Store, state ledger.State) ledger.Operation {
	t.Helper()
	return ledgertest.InState(t, store, acme, state)
}

// withdrawn is an operation that failed before anything was tried.
func withdrawn(t *testing.T, store *postgres.Store) ledger.Operation {
	t.Helper()
	return ledgertest.Moved(t, store, inState(t, store, ledger.Pending), ledger.Cancel)
}

// update writes to an operation's row past the store.
func update(t *testing.T, conn *pgx.Conn, op ledger.Operation, set string) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), `UPDATE operations SET `+set+` WHERE tenant_id = $1 AND id = $2::uuid`, op.Tenant, op.ID)
	return err
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "OW001" {
		t.Errorf("%s: error %v, want SQLSTATE OW001", what, err)
	}
}
