package campaign

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/chaos/judge"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/ledger"
)

var (
	//go:embed sql/operations.sql
	operationsSQL string
	//go:embed sql/notes.sql
	notesSQL string
	//go:embed sql/budgets.sql
	budgetsSQL string
	//go:embed sql/open.sql
	openSQL string
)

// open counts the operations that are not finished, by state.
func (w *world) open(ctx context.Context) (map[string]int, error) {
	rows, err := w.pool.Query(ctx, openSQL)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	var state string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		counts[state] = n
		return nil
	})
	return counts, err
}

// collect gathers the facts.
func (w *world) collect(ctx context.Context, c *callers, stops []judge.Stop) (judge.Facts, error) {
	f := judge.Facts{Calls: c.log.Calls(), Stops: stops, Wrong: c.wrong}
	for _, m := range w.members {
		f.Died = append(f.Died, m.deaths()...)
	}
	rows, err := w.pool.Query(ctx, operationsSQL)
	if err != nil {
		return f, err
	}
	f.Operations, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (judge.Operation, error) {
		var op judge.Operation
		err := row.Scan(&op.Tenant, &op.ID, &op.LedgerKey, &op.Key, &op.ActionType, &op.State, &op.Effect, &op.Reference,
			&op.Receipt, &op.Failure, &op.Attempts, &op.HasIncident, &op.Intent)
		return op, err
	})
	if err != nil {
		return f, err
	}
	tenantOf := map[string]string{}
	for _, op := range f.Operations {
		tenantOf[op.ID] = op.Tenant
	}
	for _, e := range w.provider.Effects() {
		f.Effects = append(f.Effects, judge.Effect{
			Tenant: tenantOf[e.OperationID], OperationID: e.OperationID, ID: e.ID, About: e.NaturalKey, At: e.At, Cents: centsOf(e),
		})
	}
	if rows, err = w.pool.Query(ctx, notesSQL); err != nil {
		return f, err
	}
	var e judge.Effect
	_, err = pgx.ForEachRow(rows, []any{&e.Tenant, &e.OperationID, &e.About, &e.At}, func() error {
		e.ID = e.OperationID // the reference of a note
		f.Effects = append(f.Effects, e)
		return nil
	})
	if err != nil {
		return f, err
	}
	for _, r := range w.provider.Requests() {
		if r.Kind == fakeprovider.KindWrite && r.OperationID != "" {
			f.Writes = append(f.Writes, judge.Write{OperationID: r.OperationID, At: r.At, BodyHash: r.BodySHA256, Fault: r.Fault, Status: r.Status, EffectID: r.EffectID})
		}
	}
	lied := map[string]bool{}
	for _, w := range f.Writes {
		lied[w.OperationID] = lied[w.OperationID] || strings.HasSuffix(w.Fault, fakeprovider.Fault{DuplicateLookup: true}.String()[len(fakeprovider.None):])
	}
	for i := range f.Operations {
		f.Operations[i].Lied = lied[f.Operations[i].ID]
	}
	slices.SortStableFunc(f.Writes, func(a, b judge.Write) int { return a.At.Compare(b.At) })
	err = w.owner.AuditRecord(ctx, "", time.Time{}, func(line []byte) error {
		event, err := auditchain.Parse(line)
		if err == nil {
			f.Events = append(f.Events, event)
		}
		return err
	})
	if err != nil {
		return f, err
	}
	f.Budgets, err = w.budgets(ctx, f)
	return f, err
}

// budgets are the counters of the budget whose use must be the effects', and of the
// one that counts what is open.
func (w *world) budgets(ctx context.Context, f judge.Facts) ([]judge.Budget, error) {
	rows, err := w.pool.Query(ctx, budgetsSQL)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (judge.Budget, error) {
		var b judge.Budget
		err := row.Scan(&b.Tenant, &b.Counter, &b.Held, &b.Used)
		return b, err
	})
	if err != nil {
		return nil, err
	}
	return counted(all, f.Effects), nil
}

// counted says of each counter what the effects say is used, and adds the one that
// must be there and is not.
func counted(counters []judge.Budget, effects []judge.Effect) []judge.Budget {
	var spent int64
	for _, e := range effects {
		if e.Tenant == acme {
			spent += e.Cents
		}
	}
	there := false
	for i, b := range counters {
		if b.Tenant == acme && strings.Contains(b.Counter, budgetID) {
			counters[i].Want, there = spent, true
		}
	}
	if !there && spent > 0 {
		counters = append(counters, judge.Budget{Tenant: acme, Counter: budgetID, Want: spent})
	}
	return counters
}

// centsOf is the money that an effect moved.
func centsOf(e fakeprovider.Effect) int64 {
	var body struct {
		Amount int64 `json:"amount"`
	}
	if json.Unmarshal(e.Body, &body) != nil {
		return 0
	}
	return body.Amount
}

// resolved says how long each operation that was in doubt was not finished, by what
// had happened to it.
func resolved(f judge.Facts, c *callers, done []disturbance) map[string][]time.Duration {
	byKind := map[string][]time.Duration{}
	keys := map[string]string{}
	for _, op := range f.Operations {
		keys[op.ID] = op.Tenant + "/" + op.Key
	}
	faults := map[string]string{}
	for _, g := range c.goals {
		if len(g.faults) > 0 {
			faults[g.tenant+"/"+g.name] = answersPrefix + string(g.faults[0].Kind)
		}
	}
	doubted := map[string]time.Time{}
	for _, e := range f.Events {
		at, err := time.Parse(time.RFC3339Nano, e.At)
		if err != nil {
			continue
		}
		first, inDoubt := doubted[e.OperationID]
		if !inDoubt && e.Event == string(ledger.Doubt) {
			doubted[e.OperationID] = at
		}
		if inDoubt && ledger.State(e.To).Final() {
			kind := faults[keys[e.OperationID]]
			if kind == "" {
				kind = during(done, first.Sub(c.began))
			}
			byKind[kind] = append(byKind[kind], at.Sub(first))
			delete(doubted, e.OperationID)
		}
	}
	return byKind
}

// during is the kind of the fault that began last before a moment, not long before it.
func during(done []disturbance, at time.Duration) string {
	kind, from := "none", time.Duration(-1)
	for _, d := range done {
		if d.From <= at && d.To+attemptTimeout+leaseGrace+time.Second >= at && d.From > from {
			kind, from = d.Kind, d.From
		}
	}
	return kind
}
