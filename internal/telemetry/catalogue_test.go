package telemetry

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/onceward/onceward/ledger"
)

// described is a metric as docs/metrics.md has it, or as it is registered.
type described struct {
	kind   string
	labels string // sorted
}

// catalogue reads the tables of docs/metrics.md.
func catalogue(t *testing.T) map[string]described {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]described{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !strings.Contains(cells[1], "`onceward_") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if _, twice := rows[name]; twice {
			t.Errorf("%s is in the catalogue twice", name)
		}
		rows[name] = described{strings.TrimSpace(cells[2]), sorted(strings.FieldsFunc(cells[3], func(r rune) bool { return r == ' ' || r == ',' }))}
	}
	if len(rows) < 40 {
		t.Fatalf("only %d rows were read", len(rows))
	}
	return rows
}

func sorted(labels []string) string {
	slices.Sort(labels)
	return strings.Join(labels, " ")
}

// fake is a dispatcher.
type fake struct{}

func (fake) InFlight() (now, limit int) { return 3, 1024 }
func (fake) Circuits(each func(tenant, provider string, open bool)) {
	each("acme", "fakepay", true)
	each("acme", "fakepay", false) // the same under other rules
	each("globex", "fakepay", false)
}

func newTelemetry(t testing.TB, o Options) *Telemetry {
	t.Helper()
	made, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// tellAll makes every metric of the parts have a child.
func tellAll(m *Telemetry, tenant, actionType, provider string) {
	m.Requests.Answered(tenant, actionType, "executed", time.Second)
	m.Requests.Duplicate(tenant, actionType, "")
	m.Requests.KeyMismatch(tenant, actionType)
	m.Requests.Refused(tenant, actionType, "POLICY_DENIED")
	m.Requests.BudgetRefused(tenant, "daily")
	m.Requests.IntentRefused(tenant, actionType)
	m.Requests.Unauthenticated("bad")
	m.Moves.Moved(tenant, actionType, "claim", "running")
	m.Moves.Doubted(tenant, actionType, provider, "ambiguous")
	m.Moves.DoubtEnded(provider, "succeeded", time.Second)
	m.Moves.LeaseExpired(tenant, actionType)
	m.Moves.Contradicted(tenant, actionType, provider)
	m.Moves.ReviewOpened(tenant, actionType, "inconclusive")
	m.Moves.ReviewDecided(tenant, actionType, "approved")
	m.Attempts.Attempted(tenant, actionType, provider, "applied", time.Second)
	m.Attempts.HeldBack(provider, "busy")
	m.Attempts.Overtaken(tenant, actionType)
	m.Repairs.Looked(tenant, actionType, provider, "found")
	m.Repairs.LookedUp(provider, time.Second)
	m.Repairs.Round(time.Now(), time.Second)
	m.Webhooks.Received(tenant, provider, "stored", true)
	m.Reloads.Refused("policies")(true)
	for lane := range ledger.Lanes {
		m.Ledger.Batch(lane, 1, time.Second)
		m.Ledger.Overloaded(lane)
	}
	m.Ledger.AmbiguousCommit(0)
	m.Ledger.Unanswered()
	m.Ledger.Looked(true)
	m.Ledger.Load(func() ledger.Load { return ledger.Load{} })
	m.Ledger.Counted(ledger.Census{
		Open:     []ledger.OpenCount{{State: ledger.Unknown, ActionType: actionType, Count: 1}},
		Switches: map[ledger.SwitchScope]int{ledger.SwitchTenant: 1},
	}, true)
}

func gather(t testing.TB, m *Telemetry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "onceward_") {
			byName[f.GetName()] = f
		}
	}
	return byName
}

// The catalogue that people read, build dashboards on and set alerts on is what is
// registered: the same names, types and labels.
func TestCatalogueIsWhatIsRegistered(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, Options{})
	m.ObserveDispatcher(fake{})
	tellAll(m, "acme", "refund", "fakepay")
	rows, registered := catalogue(t), gather(t, m)
	for name, f := range registered {
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		got := described{strings.ToLower(f.GetType().String()), sorted(labels)}
		if want, ok := rows[name]; !ok {
			t.Errorf("%s is not in docs/metrics.md", name)
		} else if got != want {
			t.Errorf("%s is %+v, and %+v in docs/metrics.md", name, got, want)
		}
	}
	for name := range rows {
		if registered[name] == nil {
			t.Errorf("%s is in docs/metrics.md and nobody registers it", name)
		}
	}
}

func TestNamesArePlain(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, Options{})
	m.ObserveDispatcher(fake{})
	tellAll(m, "acme", "refund", "fakepay")
	var families []*dto.MetricFamily
	for _, f := range gather(t, m) {
		families = append(families, f)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Whatever comes, a label has few values, and what is beyond them is still counted.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	const most, comers = 10, 100_000
	m := newTelemetry(t, Options{MaxTenants: most, MaxActionTypes: most, MaxProviders: most})
	for i := range comers {
		m.Requests.Answered(fmt.Sprintf("tenant-%d", i), "refund", "executed", time.Second)
	}
	for i := range 1000 {
		tellAll(m, fmt.Sprintf("tenant-%d", i), fmt.Sprintf("type-%d", i), fmt.Sprintf("provider-%d", i))
	}
	for name, f := range gather(t, m) {
		seen := map[string]map[string]bool{}
		for _, metric := range f.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if seen[pair.GetName()] == nil {
					seen[pair.GetName()] = map[string]bool{}
				}
				seen[pair.GetName()][pair.GetValue()] = true
			}
		}
		for label, values := range seen {
			if len(values) > most+1 {
				t.Errorf("%s has %d values of %s", name, len(values), label)
			}
		}
	}
	total := 0.0
	for _, metric := range gather(t, m)["onceward_requests_total"].GetMetric() {
		total += metric.GetCounter().GetValue()
	}
	if total != comers+1000 {
		t.Errorf("%v requests are counted, of %d", total, comers+1000)
	}
}

// Names that no metric may have are counted, and take no place of others.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ value, want string }{
		"not UTF-8":        {"a\xff", other},
		"very long":        {strings.Repeat("x", maxLabelBytes+1), other},
		"unknown":          {"", none},
		"a line and quote": {"a\n\"b\"", "a\n\"b\""}, // the format escapes it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTelemetry(t, Options{MaxTenants: 1})
			m.Requests.KeyMismatch(test.value, test.value)
			pairs := gather(t, m)["onceward_key_mismatches_total"].GetMetric()[0].GetLabel()
			for _, pair := range pairs {
				if pair.GetValue() != test.want {
					t.Errorf("%s is %q, want %q", pair.GetName(), pair.GetValue(), test.want)
				}
			}
			if test.want == other && m.labels.tenants.of("acme") != "acme" {
				t.Error("it took the place of a tenant")
			}
		})
	}
}

// What strangers write into a path takes nobody's place.
func TestStrangersTakeNoPlace(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, Options{MaxTenants: 2})
	m.Webhooks.Received("acme", "stripe", "stored", true)
	for i := range 1000 {
		m.Webhooks.Received(fmt.Sprintf("tenant-%d", i), "stripe\xff", "unverified", false)
	}
	m.Webhooks.Received("acme", "stripe", "unverified", false)
	m.Webhooks.Received("globex", "stripe", "stored", true)
	counts := map[string]float64{}
	for _, metric := range gather(t, m)["onceward_webhooks_total"].GetMetric() {
		l := metric.GetLabel()
		counts[l[2].GetValue()+" "+l[0].GetValue()+" "+l[1].GetValue()] = metric.GetCounter().GetValue()
	}
	want := map[string]float64{"acme stripe stored": 1, "acme stripe unverified": 1, "globex stripe stored": 1, other + " " + other + " unverified": 1000}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", counts, want)
	}
}

// Tenants of one provider that share a name are open while one of them is.
func TestCircuitsAreRead(t *testing.T) {
	t.Parallel()
	m := newTelemetry(t, Options{})
	m.ObserveDispatcher(fake{})
	open := map[string]float64{}
	for _, metric := range gather(t, m)["onceward_circuit_open"].GetMetric() {
		open[metric.GetLabel()[1].GetValue()] = metric.GetGauge().GetValue()
	}
	if len(open) != 2 || open["acme"] != 1 || open["globex"] != 0 {
		t.Errorf("got %v", open)
	}
}

// Counting costs no memory once a child is there.
func TestCountingAllocatesNothing(t *testing.T) {
	m := newTelemetry(t, Options{MaxTenants: 1})
	tellAll(m, "acme", "refund", "fakepay")
	allocations := testing.AllocsPerRun(100, func() {
		m.Requests.Answered("acme", "refund", "executed", time.Second)
		m.Moves.Moved("acme", "refund", "claim", "running")
		m.Attempts.Attempted("acme", "refund", "fakepay", "applied", time.Second)
		m.Requests.Answered("globex", "refund", "executed", time.Second) // other
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{-0.1, 1.1} {
		if _, err := New(t.Context(), Options{SampleRatio: ratio}); err == nil {
			t.Errorf("a sample ratio of %v is taken", ratio)
		}
	}
}
