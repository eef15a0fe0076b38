package planners

import (
	"encoding/json"
	"math/big"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/auditchain"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// judge compares the target with the ledger, the budgets and the record.
func judge(t *testing.T, w *apptest.World, p *planner, goals []goal) {
	t.Helper()
	// The allowed effects, and no others: at most one for each goal, whichever tool
	// made it, and one for each operation that succeeded.
	spent, effects := 0, 0
	for _, g := range goals {
		on := w.Provider.EffectsOn(fakeprovider.RefundOf(g.charge()))
		mails := w.Provider.EffectsOn(fakeprovider.MailOf("li@example.test", g.charge(), 1))
		if len(on)+len(mails) > 1 {
			t.Errorf("%s was met %d times; %s", g.name, len(on)+len(mails), w.Describe())
		}
		effects += len(mails)
		for _, e := range on {
			var body struct{ Amount int }
			if err := json.Unmarshal(e.Body, &body); err != nil || body.Amount != g.cents {
				t.Errorf("%s was refunded with %s, want %d: %v", g.name, e.Body, g.cents, err)
			}
			spent, effects = spent+body.Amount, effects+1
		}
	}
	if all := len(w.Provider.Effects()); all != effects {
		t.Errorf("the target holds %d effects, and %d are of goals; %s", all, effects, w.Describe())
	}
	if n := w.Database.Count(t, `SELECT count(*) FROM operations WHERE status = 'succeeded'`); n != effects {
		t.Errorf("%d operations have succeeded and the target holds %d effects", n, effects)
	}
	if spent > budgetCents || effects == 0 {
		t.Errorf("%d cents were refunded of %d that may be", spent, budgetCents)
	}
	p.wantBudget(spent)
	p.wantRecord()
	wantChains(t, w)
	t.Logf("%d of %d goals were met with %d cents; %d answers, refusals %v", effects, len(goals), spent, p.answers, p.refusals)
	for _, reason := range []string{"POLICY_DENIED", "INVALID_ARGUMENTS", "IDEMPOTENCY_KEY_REUSED", "BUDGET_EXHAUSTED", "INTENT_QUIET"} {
		if p.refusals[reason] == 0 {
			t.Errorf("nobody was refused for %s: the test does not test it", reason)
		}
	}
}

// wantBudget: exact to the cent.
func (p *planner) wantBudget(spent int) {
	p.t.Helper()
	preview, err := p.replicas[0].Actions.PreviewAction(apptest.As(p.t.Context(), p.w.Agent), &oncewardv1.PreviewActionRequest{Request: goal{"preview", 1}.request()})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, b := range preview.GetBudgets() {
		used, ok := new(big.Rat).SetString(b.GetUsed())
		want := map[string]*big.Rat{"refunds": big.NewRat(int64(spent), 100), "at-once": new(big.Rat), "refunds-to-one": new(big.Rat)}[b.GetBudget()]
		if !ok || want != nil && used.Cmp(want) != 0 {
			p.t.Errorf("budget %s of %s has %s used, want %s", b.GetBudget(), b.GetSubject(), b.GetUsed(), want.FloatString(2))
		}
	}
	if len(preview.GetBudgets()) != 4 {
		p.t.Errorf("the preview shows %v", preview.GetBudgets())
	}
}

// wantRecord: every refusal that a planner was told is in the audit record, with
// its reason.
func (p *planner) wantRecord() {
	p.t.Helper()
	recorded := map[string]int{}
	token := ""
	for {
		page, err := p.replicas[0].Audit.ListEvents(apptest.As(p.t.Context(), p.w.Reviewer), &oncewardv1.ListEventsRequest{
			PageSize: 1000, PageToken: token, Filter: &oncewardv1.EventFilter{DeniedOnly: true},
		})
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range page.GetEvents() {
			recorded[e.GetContext().GetReason()]++
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	for reason, n := range p.refusals {
		if recorded[reason] < n {
			p.t.Errorf("planners were refused %d times for %s, and the record has %d", n, reason, recorded[reason])
		}
	}
	stats, err := p.replicas[0].Stats.GetStats(apptest.As(p.t.Context(), p.w.Reviewer), &oncewardv1.GetStatsRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	// They are written every few seconds: what is there is not more than happened.
	if n := stats.GetTotal().GetExecuted(); n > int64(p.w.Database.Count(p.t, `SELECT count(*) FROM operations`)) {
		p.t.Errorf("%d operations are counted, and there are fewer", n)
	}
}

// wantChains: no event was removed or changed.
func wantChains(t *testing.T, w *apptest.World) {
	t.Helper()
	verifier := &auditchain.Verifier{Found: func(problem auditchain.Problem) { t.Errorf("audit record: %s", problem) }}
	err := w.Owner().AuditRecord(t.Context(), "", time.Time{}, func(line []byte) error {
		event, err := auditchain.Parse(line)
		if err == nil {
			verifier.Add(event)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	verifier.End()
	if n := w.Database.Count(t, `SELECT count(*) FROM operations WHERE held AND status = 'failed' AND EXISTS (
		SELECT FROM holds h WHERE h.tenant_id = operations.tenant_id AND h.operation_id = operations.id AND h.state = 'held')`); n != 0 {
		t.Errorf("%d failed operations hold something", n)
	}
}
