package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
)

// A ledger of the first schema is all there after the second: operations in
// every state, their attempts, reviews and record, and what waits for the
// reconciler.
func TestUpgradeFromTheFirstSchema(t *testing.T) {
	t.Parallel()
	ledgertest.NewDatabase(t) // makes the server's login, which an empty database does not
	db := ledgertest.At(t, pgtest.NewDatabase(t, pgtest.Template{}))
	first, err := os.ReadFile("../../migrations/000001_ledger.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	db.Exec(t, string(first))
	db.Exec(t, `CREATE TABLE onceward_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL); INSERT INTO onceward_migrations VALUES (1, false)`)
	filled := map[ledger.State]string{}
	for _, state := range ledger.States() {
		filled[state] = ledgertest.ID()
		final := state.Final()
		effect := map[ledger.State]string{ledger.Pending: "not_applied", ledger.Succeeded: "applied", ledger.Failed: "not_applied"}[state]
		if effect == "" {
			effect = "unknown"
		}
		db.Exec(t, `SET session_replication_role = replica;
			INSERT INTO operations (tenant_id, id, idempotency_key, key_source, action_type, adapter_version, contract_version, args_hash, request_hash,
				arguments_sealed, status, last_event, effect, in_doubt, attempt, result_json, error_json, requested_by, run_json, created_at,
				first_sent_at, last_sent_at, lease_expires_at, next_attempt_at, retention, expired_key, window_ends_at, revision)
			SELECT 'acme', '`+filled[state]+`', 'key of `+string(state)+`', 'caller', 'demo', '1', '1', sha256('a'), sha256('r'),
				CASE WHEN `+boolean(final)+` THEN NULL ELSE '\x01'::bytea END, '`+string(state)+`', 'x', '`+effect+`', '`+string(state)+`' IN ('unknown', 'needs_review'), 1,
				CASE WHEN '`+string(state)+`' = 'succeeded' THEN '{"id":"re_1"}'::json END, CASE WHEN '`+string(state)+`' = 'failed' THEN '{"code":"x"}'::json END,
				'agent', '{}', now() - interval '2 days', now(), clock_timestamp(), CASE WHEN '`+string(state)+`' = 'running' THEN now() - interval '1 minute' END,
				CASE WHEN '`+string(state)+`' IN ('pending', 'unknown') THEN now() END, interval '1 day', 'reuse',
				CASE WHEN `+boolean(final)+` THEN now() - interval '1 hour' END, 2;
			INSERT INTO attempts VALUES ('acme', '`+filled[state]+`', 1, gen_random_uuid(), 'claim', 'abc', 0, now() - interval '1 hour',
				CASE WHEN '`+string(state)+`' <> 'running' THEN now() END, CASE WHEN '`+string(state)+`' <> 'running' THEN 'seen' END, 'evidence');
			INSERT INTO audit_events VALUES ('acme', '`+filled[state]+`', 1, 'claim', '', 'running', 1, 0, sha256('a'), 'agent', '', now() - interval '1 hour');
			INSERT INTO audit_events SELECT 'acme', '`+filled[state]+`', 2, 'x', 'running', '`+string(state)+`', 1, 0, sha256('a'), 'worker', 'evidence'
				WHERE '`+string(state)+`' <> 'running';
			INSERT INTO reviews SELECT 'acme', gen_random_uuid(), '`+filled[state]+`', 'inconclusive', 'asked', sha256('a'), now(), now()
				WHERE '`+string(state)+`' = 'needs_review'`)
	}
	if _, err := postgres.Open(t.Context(), db.ServeURL); !errors.Is(err, postgres.ErrOldSchema) {
		t.Errorf("serving on the first schema: %v", err)
	}
	if version, err := migrations.Up(t.Context(), db.OwnerURL); err != nil || version < 2 {
		t.Fatalf("version %d, %v", version, err)
	}

	store := db.Open(t)
	for state, id := range filled {
		op, err := store.Get(t.Context(), acme, id)
		if err != nil || op.State != state || op.Key != "key of "+string(state) {
			t.Errorf("a %s operation: %+v, %v", state, op, err)
			continue
		}
		if len(op.Attempts) != 1 || op.Attempts[0].EndedAt.IsZero() != (state == ledger.Running) || (state != ledger.Running && (op.Attempts[0].Outcome != "seen" || op.Attempts[0].Evidence != "evidence")) {
			t.Errorf("the attempts of a %s operation: %+v", state, op.Attempts)
		}
		if len(db.Audit(t, op)) == 0 {
			t.Errorf("a %s operation has no record", state)
		}
		if first, err := store.Events(t.Context(), acme, ledger.EventFilter{OperationID: id}, ledger.EventPosition{}, 1); err != nil || len(first) != 1 ||
			first[0].Context == nil || first[0].Context.ActionType != "demo" || first[0].Context.KeyHash != fmt.Sprintf("%x", ledgertest.Hash(op.Key)) {
			t.Errorf("the first event of a %s operation: %+v, %v", state, first, err)
		}
		if op.Review.Open() != (state == ledger.NeedsReview) {
			t.Errorf("the review of a %s operation: %+v", state, op.Review)
		}
	}
	if listed, err := store.List(t.Context(), acme, ledger.Filter{}, "", 100); err != nil || len(listed) != len(filled) {
		t.Errorf("lists %d, %v; want %d", len(listed), err, len(filled))
	}
	if problems, events := verified(t, store); len(problems) > 0 || events < int64(len(filled)) {
		t.Errorf("%d old events are chained, with problems %v", events, problems)
	}
	if expired, _, err := store.ExpireLeases(t.Context(), 10); err != nil || !slices.Equal(ids(expired), []string{filled[ledger.Running]}) {
		t.Errorf("expired %v, %v", ids(expired), err)
	}
	if lapsed, err := store.ExpiredReviews(t.Context(), 10); err != nil || len(lapsed) != 1 {
		t.Errorf("lapsed %v, %v", ids(lapsed), err)
	}
	if unknown, err := store.LeaseUnknown(t.Context(), 10, time.Minute); err != nil || len(unknown) != 2 {
		t.Errorf("leased %v, %v; want the unknown one and the one that is now", ids(unknown), err)
	}
	if _, swept, _, err := store.Sweep(t.Context(), 10); err != nil || swept != 2 {
		t.Errorf("swept %d, %v; want those past their window", swept, err)
	}
	if problems, _ := verified(t, store); len(problems) > 0 {
		t.Errorf("after moves the record has problems %v", problems)
	}
}

func boolean(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
