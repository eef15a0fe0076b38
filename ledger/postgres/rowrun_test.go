package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// Whatever several workers, reconcilers and reviewers ask of the store, with
// snapshots that may be long out of date, every answer and every row is as the
// model says; and of each operation one attempt at most is under way, each move
// is in the record, and the record hangs together.
func TestRowsAreTheModels(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	other := db.Open(t) // of another replica
	conn, tenants := db.Owner(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		tenants++
		r := &rowRun{t: t, rt: rt, conn: conn, tenant: fmt.Sprintf("t%d", tenants), rows: map[string]*rowModel{}}
		steps := map[string]func(){
			"open": r.open, "start": r.start, "apply": r.apply, "evidence": r.evidence, "correct": r.correct,
			"expire leases": r.expireLeases, "lease": r.lease, "postpone": r.postpone, "read": r.read, "wait": r.wait,
		}
		// What moves rows is drawn more often than what makes them.
		names := []string{
			"open", "start", "start", "apply", "apply", "apply", "apply", "evidence", "correct", "expire leases",
			"lease", "lease", "postpone", "read", "wait", "wait",
		}
		for range rapid.IntRange(10, 30).Draw(rt, "steps") {
			r.store = store
			if rapid.Bool().Draw(rt, "by another replica") {
				r.store = other
			}
			steps[rapid.SampledFrom(names).Draw(rt, "step")]()
			r.check()
		}
		r.recordHolds()
	})
}

// rowRun is a run of the model beside the store.
type rowRun struct {
	t      *testing.T
	rt     *rapid.T
	conn   *pgx.Conn
	store  *postgres.Store
	tenant string
	rows   map[string]*rowModel // by key
	known  []ledger.Operation   // what somebody has read, however long ago
}

// learned keeps what the store returned, for those who act on it later.
func (r *rowRun) learned(op ledger.Operation) { r.known = append(r.known, op) }

// snapshot is an operation in one of some states, or any, as somebody knows it. As
// a rule it is the latest; but often one from a time when the row looked as it does
// now, which is what fences are for; and sometimes anything.
func (r *rowRun) snapshot(states ...ledger.State) (ledger.Operation, *rowModel, bool) {
	var some, alike []ledger.Operation
	for _, op := range slices.Backward(r.known) {
		if len(states) > 0 && !slices.Contains(states, op.State) {
			continue
		}
		some = append(some, op)
		if m := r.rows[op.Key]; m.state == op.State && m.revision != op.Revision {
			alike = append(alike, op)
		}
	}
	if len(some) == 0 {
		return ledger.Operation{}, nil, false
	}
	op := some[0]
	switch choice := rapid.IntRange(0, 9).Draw(r.rt, "whose view"); {
	case choice > 7:
		op = rapid.SampledFrom(some).Draw(r.rt, "any view")
	case choice > 4 && len(alike) > 0:
		op = rapid.SampledFrom(alike).Draw(r.rt, "old view")
	}
	return op, r.rows[op.Key], true
}

// answered checks an error against the model's, and keeps the operation where
// there is none.
func (r *rowRun) answered(what string, op ledger.Operation, err, want error) {
	r.t.Helper()
	switch {
	case want == nil && err == nil:
		r.learned(op)
		r.same(what+" returns", op)
	case want == nil, err == nil:
		r.rt.Fatalf("%s: error %v, want %v", what, err, want)
	case !errors.Is(err, want):
		r.rt.Fatalf("%s: error %v, want %v", what, err, want)
	}
}

func (r *rowRun) open() {
	o := ledgertest.Opening(r.tenant)
	switch rapid.SampledFrom([]ledger.Event{ledger.Claim, ledger.Claim, ledger.Record, ledger.Escalate}).Draw(r.rt, "opened by") {
	case ledger.Record:
		o = ledgertest.Recorded(r.tenant)
	case ledger.Escalate:
		o = ledgertest.Asked(r.tenant)
	default:
		o.Start.Lease, o.Start.Horizon = leaseMinutes*time.Minute, horizonMinutes*time.Minute
	}
	o.Operation.Key = rapid.SampledFrom([]string{"key-1", "key-1", "key-1", "key-2"}).Draw(r.rt, "key")
	o.Operation.ArgsHash = ledgertest.Hash(rapid.SampledFrom([]string{"arguments", "arguments", "others"}).Draw(r.rt, "arguments"))
	op, created, err := r.store.Open(r.t.Context(), o)
	m, taken := r.rows[o.Operation.Key]
	var reused *ledger.KeyReusedError
	switch {
	case !taken && (err != nil || !created):
		r.rt.Fatalf("opening a free key: created %v, %v", created, err)
	case !taken:
		r.rows[o.Operation.Key] = opened(o)
	case m.args != o.Operation.ArgsHash:
		if !errors.As(err, &reused) || reused.Existing.ID != m.id {
			r.rt.Fatalf("other arguments under a taken key: created %v, %v, want it refused with operation %s", created, err, m.id)
		}
		return
	case err != nil || created || op.ID != m.id:
		r.rt.Fatalf("a duplicate: created %v, %v, operation %s, want %s", created, err, op.ID, m.id)
	}
	r.learned(op)
	r.same("opening returns", op)
}

func (r *rowRun) start() {
	op, m, ok := r.snapshot(ledger.Pending, ledger.Unknown)
	if !ok {
		return
	}
	c := ledgertest.Claiming(op)
	c.Start.Lease, c.Start.Horizon = leaseMinutes*time.Minute, horizonMinutes*time.Minute
	if rapid.IntRange(0, 9).Draw(r.rt, "another request") == 0 {
		c.RequestHash = ledgertest.Hash("another request")
	}
	if !m.request { // it would be frozen
		c.RequestHash = ledgertest.Hash("request")
	}
	got, err := r.store.Start(r.t.Context(), c)
	r.answered("starting", got, err, m.start(c))
}

func (r *rowRun) apply() {
	op, m, ok := r.snapshot()
	if !ok {
		return
	}
	var events []ledger.Event
	for _, move := range ledger.Moves() {
		switch move.Event {
		case ledger.Claim, ledger.Replay, ledger.Correct: // not by Apply
		default:
			if move.From == op.State {
				events = append(events, move.Event)
			}
		}
	}
	if len(events) == 0 || rapid.IntRange(0, 19).Draw(r.rt, "illegal") == 0 {
		events = []ledger.Event{ledger.Contradict, ledger.Confirm}
	}
	c := ledgertest.Change(op, rapid.SampledFrom(events).Draw(r.rt, "event"))
	if c.ProviderReference != "" {
		c.ProviderReference = rapid.SampledFrom([]string{"re_1", "re_2"}).Draw(r.rt, "reference")
	}
	c.Leased = op.State == ledger.Unknown && rapid.Bool().Draw(r.rt, "leased")
	c.Delay = time.Duration(rapid.SampledFrom([]int{0, 10}).Draw(r.rt, "delay")) * time.Minute
	if c.Event == ledger.Defer || c.Event == ledger.Release || c.Event == ledger.Doubt {
		c.BumpEpoch = rapid.IntRange(0, 2).Draw(r.rt, "new epoch") == 0
	}
	if to, _ := ledger.Next(op.State, c.Event); to == ledger.Unknown {
		c.InDoubt = rapid.Bool().Draw(r.rt, "says that it is in doubt")
	}
	got, err := r.store.Apply(r.t.Context(), c)
	r.answered(fmt.Sprintf("%s of a %s operation", c.Event, op.State), got, err, m.apply(c))
}

func (r *rowRun) evidence() {
	op, m, ok := r.snapshot()
	if !ok {
		return
	}
	e := ledger.Evidence{
		Operation: op, Attempt: max(op.Attempt, 1), Actor: "worker", Detail: "late",
		ProviderReference: rapid.SampledFrom([]string{"", "re_1", "re_2"}).Draw(r.rt, "reference"), InDoubt: rapid.Bool().Draw(r.rt, "in doubt"),
	}
	got, err := r.store.AddEvidence(r.t.Context(), e)
	r.answered("evidence", got, err, m.learn(e))
}

func (r *rowRun) correct() {
	op, m, ok := r.snapshot(ledger.Failed, ledger.Pending)
	if !ok {
		return
	}
	o := ledgertest.Opening(r.tenant)
	o.Operation.ArgsHash = ledgertest.Hash(rapid.SampledFrom([]string{"corrected", "others"}).Draw(r.rt, "arguments"))
	got, err := r.store.Correct(r.t.Context(), op, o)
	r.answered("correcting", got, err, m.correct(op, o))
}

func (r *rowRun) expireLeases() {
	ops, _, err := r.store.ExpireLeases(r.t.Context(), 1000)
	r.took("expiring leases", ops, err, (*rowModel).overdue)
}

func (r *rowRun) lease() {
	ops, err := r.store.LeaseUnknown(r.t.Context(), 1000, leaseMinutes*time.Minute)
	r.took("leasing", ops, err, (*rowModel).leased)
}

// took checks which rows of this run a statement over all of them took.
func (r *rowRun) took(what string, ops []ledger.Operation, err error, takes func(*rowModel) bool) {
	if err != nil {
		r.rt.Fatalf("%s: %v", what, err)
	}
	got := map[string]ledger.Operation{}
	for _, op := range ops {
		if op.Tenant == r.tenant {
			got[op.Key] = op
		}
	}
	for key, m := range r.rows {
		op, taken := got[key]
		if takes(m) != taken {
			r.rt.Fatalf("%s: %s was taken: %v", what, key, taken)
		}
		if taken {
			r.learned(op)
			r.same(what+" returns", op)
		}
	}
}

func (r *rowRun) postpone() {
	op, m, ok := r.snapshot(ledger.Pending, ledger.Unknown)
	if !ok {
		return
	}
	p := ledger.Postponement{
		Operation: op, Reason: "looked", NegativeReads: rapid.IntRange(0, 2).Draw(r.rt, "reads"), Untried: rapid.Bool().Draw(r.rt, "untried"),
		Delay: time.Duration(rapid.SampledFrom([]int{0, 10}).Draw(r.rt, "delay")) * time.Minute,
	}
	got, err := r.store.Postpone(r.t.Context(), p)
	r.answered("putting off", got, err, m.putOff(p))
}

func (r *rowRun) read() {
	if op, _, ok := r.snapshot(); ok {
		got, err := r.store.Get(r.t.Context(), r.tenant, op.ID)
		r.answered("reading", got, err, nil)
	}
}

// wait lets ten minutes go by for one operation. Its history stays as it is, or the
// record would not hang together.
func (r *rowRun) wait() {
	op, m, ok := r.snapshot()
	if !ok {
		return
	}
	m.now += 10
	err := pgx.BeginFunc(r.t.Context(), r.conn, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`SET LOCAL session_replication_role = replica`, // the guard refuses this to everybody else
			`UPDATE operations SET lease_expires_at = lease_expires_at - interval '10 minutes', next_attempt_at = next_attempt_at - interval '10 minutes',
				key_horizon = key_horizon - interval '10 minutes' WHERE tenant_id = @tenant AND idempotency_key = @key`,
			`UPDATE leases SET expires_at = expires_at - interval '10 minutes' WHERE tenant_id = @tenant AND @key = ANY (idempotency_keys)`,
		} {
			if _, err := tx.Exec(r.t.Context(), sql, pgx.NamedArgs{"tenant": r.tenant, "key": op.Key}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.rt.Fatal(err)
	}
}
