package reconciler

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// told keeps what metrics are told of looks.
type told struct {
	unmeasured
	looks   []string
	lookups int
}

func (m *told) Looked(tenant, actionType, provider, result string) {
	m.looks = append(m.looks, tenant+" "+actionType+" "+provider+" "+result)
}
func (m *told) LookedUp(string, time.Duration) { m.lookups++ }

// Each look at a doubt has one result.
func TestMetricsOfLooks(t *testing.T) {
	t.Parallel()
	authoritative := actions.Spec{}.WithDefaults()
	authoritative.Contract.Lookup = actions.LookupRules{Authoritative: true, NegativeReads: 1}
	receipt := actions.Receipt{Reference: "re_1", JSON: []byte(`{}`)}
	for name, test := range map[string]struct {
		spec    actions.Spec
		finding actions.Finding
		want    string
	}{
		"found":               {authoritative, actions.Finding{Kind: actions.Found, Receipt: receipt}, "found"},
		"found without name":  {authoritative, actions.Finding{Kind: actions.Found}, "inconclusive"},
		"several":             {authoritative, actions.Finding{Kind: actions.Several, References: []string{"a", "b"}}, "escalated"},
		"foreign":             {authoritative, actions.Finding{Kind: actions.Foreign}, "foreign"},
		"ended":               {authoritative, actions.Finding{Kind: actions.Ended}, "ended"},
		"absent":              {authoritative, actions.Finding{Kind: actions.Absent}, "absent"},
		"absent and no proof": {actions.Spec{}.WithDefaults(), actions.Finding{Kind: actions.Absent}, "not_seen"},
		"not said":            {authoritative, actions.Finding{}, "inconclusive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &told{}
			r := New(Options{
				Ledger: &book{}, Log: slog.New(slog.DiscardHandler), Metrics: m,
				Dispatcher: &desk{action: &actions.Action{Spec: test.spec, Adapter: finds{finding: test.finding}}},
			})
			op := unknown(func(o *ledger.Operation) {
				o.Tenant, o.ActionType, o.LeaseExpiresAt = "acme", "fake.thing", now.Add(r.Lease)
				o.Attempt, o.DoubtedAt = 1, now.Add(-time.Hour)
			})
			if err := r.resolve(t.Context(), op); err != nil {
				t.Fatal(err)
			}
			if len(m.looks) != 1 || m.looks[0] != "acme fake.thing fakepay "+test.want || m.lookups != 1 {
				t.Errorf("told %q and %d look-ups, want %s", m.looks, m.lookups, test.want)
			}
		})
	}
}

// Somebody else was faster: nobody is asked, in the log neither, and it is counted
// as that.
func TestOvertakenIsNoEscalation(t *testing.T) {
	t.Parallel()
	for result, fenced := range map[string]bool{"escalated": false, "overtaken": true} {
		t.Run(result, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			b, m := &book{fenced: fenced}, &told{}
			several := finds{finding: actions.Finding{Kind: actions.Several, References: []string{"a", "b"}}}
			r := New(Options{
				Ledger: b, Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: m,
				Dispatcher: &desk{action: &actions.Action{Spec: actions.Spec{}.WithDefaults(), Adapter: several}},
			})
			op := unknown(func(o *ledger.Operation) {
				o.Tenant, o.ActionType, o.LeaseExpiresAt = "acme", "fake.thing", now.Add(r.Lease)
			})
			if err := r.resolve(t.Context(), op); errors.Is(err, ledger.ErrFenced) != fenced || err != nil && !fenced {
				t.Fatal(err)
			}
			if len(b.changes) != 1 || b.changes[0].Event != ledger.Escalate {
				t.Fatalf("it tried %+v", b.changes)
			}
			if asked := strings.Contains(log.String(), "a person must decide"); asked == fenced {
				t.Errorf("logged: %s", log.String())
			}
			if len(m.looks) != 1 || m.looks[0] != "acme fake.thing fakepay "+result {
				t.Errorf("told %q, want %s", m.looks, result)
			}
		})
	}
}
