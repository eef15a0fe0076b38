package postgres_test

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/ledger"
)

// rowText is what a row and its model have in common, in one line.
func rowText(state ledger.State, event ledger.Event, effect ledger.Effect, reason string, inDoubt bool, attempt, epoch, lease, resolves, negatives int,
	reference string, args ledger.Hash, revision int64) string {
	return fmt.Sprintf("%s by %s, effect %s, reason %q, in doubt %v, attempt %d, epoch %d, lease %d, resolves %d, negative reads %d, reference %q, arguments %x, revision %d",
		state, event, effect, reason, inDoubt, attempt, epoch, lease, resolves, negatives, reference, args[:4], revision)
}

func (m *rowModel) String() string {
	return rowText(m.state, m.event, m.effect, m.reason, m.inDoubt, m.attempt, m.epoch, m.lease, m.resolves, m.negatives, m.reference, m.args, m.revision)
}

// same compares an operation that the store returned with the model.
func (r *rowRun) same(what string, op ledger.Operation) {
	r.t.Helper()
	m := r.rows[op.Key]
	got := rowText(op.State, op.LastEvent, op.Effect, op.Reason, op.InDoubt, op.Attempt, op.Epoch, op.Lease, op.Resolves, op.NegativeReads, op.ProviderReference, op.ArgsHash, op.Revision)
	if got != m.String() {
		r.rt.Fatalf("%s\n  %s, want\n  %s", what, got, m)
	}
}

// storedRow is a row with what belongs to it, as SQL sees it.
type storedRow struct {
	op                                ledger.Operation
	args                              []byte
	receipt, sealed, frozen           bool
	events, claims, underWay, reviews int
	leased, chained, horizon          bool
}

// storedSQL looks at every row of a tenant: how many events it has, and how many
// attempts of it began and have not ended; whether its lease is known to whoever
// expires leases, and whether its chain is that of its last event.
const storedSQL = `SELECT o.idempotency_key, o.status, o.last_event, o.effect, o.reason, o.in_doubt, o.attempt, o.epoch, o.lease, o.resolves, o.negative_reads,
	coalesce(o.provider_reference, ''), o.args_hash, o.revision, o.result_json IS NOT NULL, o.arguments_sealed IS NOT NULL, o.request_hash IS NOT NULL,
	(SELECT count(*) FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id),
	(SELECT count(*) FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id AND e.event IN ('claim', 'replay')),
	(SELECT count(*) FROM attempts a WHERE a.tenant_id = o.tenant_id AND a.operation_id = o.id AND a.ended_at IS NULL),
	(SELECT count(*) FROM reviews r WHERE r.tenant_id = o.tenant_id AND r.operation_id = o.id AND r.decision IS NULL),
	EXISTS (SELECT FROM leases l WHERE l.tenant_id = o.tenant_id AND o.idempotency_key = ANY (l.idempotency_keys)),
	o.audit_chain = (SELECT chain FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id ORDER BY sequence DESC LIMIT 1),
	o.key_horizon IS NOT NULL
	FROM operations o WHERE o.tenant_id = $1`

// check compares every row with its model, and holds what no model needs to say.
func (r *rowRun) check() {
	r.t.Helper()
	rows, err := r.conn.Query(r.t.Context(), storedSQL, r.tenant)
	if err != nil {
		r.rt.Fatal(err)
	}
	stored, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s storedRow, err error) {
		op := &s.op
		err = row.Scan(&op.Key, &op.State, &op.LastEvent, &op.Effect, &op.Reason, &op.InDoubt, &op.Attempt, &op.Epoch, &op.Lease, &op.Resolves, &op.NegativeReads,
			&op.ProviderReference, &s.args, &op.Revision, &s.receipt, &s.sealed, &s.frozen, &s.events, &s.claims, &s.underWay, &s.reviews, &s.leased, &s.chained, &s.horizon)
		if err == nil {
			op.ArgsHash = ledger.Hash(s.args)
		}
		return s, err
	})
	switch {
	case err != nil:
		r.rt.Fatal(err)
	case len(stored) != len(r.rows):
		r.rt.Fatalf("%d rows, want %d", len(stored), len(r.rows))
	}
	for _, s := range stored {
		m := r.rows[s.op.Key]
		r.same(s.op.Key+" is", s.op)
		open, running := 0, 0
		for _, ended := range m.outcomes {
			if !ended {
				open++
			}
		}
		if m.state == ledger.Running {
			running = 1
		}
		switch {
		case s.underWay > running:
			r.rt.Fatalf("%s is %s, and %d of its attempts are under way", s.op.Key, s.op.State, s.underWay)
		case s.underWay != open || s.claims != m.attempt:
			r.rt.Fatalf("%s: %d attempts, %d of them under way, want %d and %d", s.op.Key, s.claims, s.underWay, m.attempt, open)
		case s.events != m.events:
			r.rt.Fatalf("%s: %d events, want %d", s.op.Key, s.events, m.events)
		case !s.chained:
			r.rt.Fatalf("%s has another chain than its last event", s.op.Key)
		case running == 1 && !s.leased:
			r.rt.Fatalf("%s is running, and its lease is nowhere: it would never end", s.op.Key)
		case s.receipt != m.receipt || s.sealed != m.sealed || s.frozen != m.request:
			r.rt.Fatalf("%s: receipt %v, arguments %v, request %v, want %v, %v, %v", s.op.Key, s.receipt, s.sealed, s.frozen, m.receipt, m.sealed, m.request)
		case s.horizon != (m.horizon != never):
			r.rt.Fatalf("%s is %s after %d attempts, and its key has a horizon: %v", s.op.Key, s.op.State, s.op.Attempt, s.horizon)
		case (s.reviews == 1) != (m.review != "") || s.reviews > 1:
			r.rt.Fatalf("%s: %d open reviews, want review %q", s.op.Key, s.reviews, m.review)
		}
	}
}

// recordHolds verifies the audit record of the run, event by event.
func (r *rowRun) recordHolds() {
	r.t.Helper()
	v := &auditchain.Verifier{Found: func(p auditchain.Problem) { r.rt.Fatalf("the audit record: %v", p) }}
	err := r.store.AuditRecord(r.t.Context(), r.tenant, time.Time{}, func(line []byte) error {
		e, err := auditchain.Parse(line)
		v.Add(e)
		return err
	})
	if err != nil {
		r.rt.Fatal(err)
	}
	v.End()
}
