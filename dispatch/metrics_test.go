package dispatch

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// told keeps what metrics are told.
type told struct {
	unmeasured
	mu    sync.Mutex
	lines []string
}

func (m *told) add(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, line)
}

func (m *told) Attempted(tenant, actionType, provider, outcome string, _ time.Duration) {
	m.add(fmt.Sprint("attempted ", tenant, " ", actionType, " ", provider, " ", outcome))
}
func (m *told) HeldBack(provider, reason string) { m.add("held " + provider + " " + reason) }

// What is not sent is no attempt, and says why it was put off.
func TestMetricsOfAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		adapter, told := &scripted{}, &told{}
		registry, err := actions.NewRegistry(adapter)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(Options{
			Ledger: &counting{}, Registry: registry, Sealer: unsealed{}, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler),
			MaxInFlight: 1, Metrics: told,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Abandon()
		op := ledger.Operation{
			Tenant: "acme", ID: NewID(), ActionType: "pay.charge", AdapterVersion: "1", ContractVersion: "1",
			State: ledger.Pending, Attempt: 1, Reason: actions.NotApplied.String(),
		}
		attempt := func() { _, _ = d.Attempt(t.Context(), op, ledger.Claim, worker) }
		circuits := func() (open []string) {
			d.Circuits(func(tenant, provider string, held bool) {
				open = append(open, fmt.Sprint(tenant, " ", provider, " ", held))
			})
			return open
		}

		release, err := d.Reserve("fakepay")
		if err != nil {
			t.Fatal(err)
		}
		if now, limit := d.InFlight(); now != 1 || limit != 1 {
			t.Errorf("%d of %d places are taken", now, limit)
		}
		attempt() // there is no place
		release()
		adapter.answers = []actions.Outcome{kind(actions.Applied)}
		attempt()
		if got := circuits(); !slices.Equal(got, []string{"acme fakepay false"}) {
			t.Errorf("circuits are %v", got)
		}
		attempt()
		attempt() // the second failure in a row
		attempt() // is not sent
		if got := circuits(); !slices.Equal(got, []string{"acme fakepay true"}) {
			t.Errorf("circuits are %v", got)
		}
		time.Sleep(70 * time.Second)
		adapter.answers = slices.Repeat([]actions.Outcome{kind(actions.Applied)}, 3)
		for range 4 {
			attempt() // one more than the retry budget has
		}
		want := []string{
			"held fakepay busy", "attempted acme pay.charge fakepay applied", "attempted acme pay.charge fakepay ambiguous",
			"attempted acme pay.charge fakepay ambiguous", "held fakepay circuit", "attempted acme pay.charge fakepay applied",
			"attempted acme pay.charge fakepay applied", "attempted acme pay.charge fakepay applied", "held fakepay retry_budget",
		}
		if !slices.Equal(told.lines, want) {
			t.Errorf("told %q,\nwant %q", told.lines, want)
		}
	})
}
