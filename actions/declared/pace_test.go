package declared

import (
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/definition"
)

// tick is a clock that tests move.
type tick struct{ now time.Time }

func (c *tick) Now() time.Time { return c.now }

func newTick() *tick { return &tick{time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func newTestPaces(rules *definition.Pace, perTenant bool) (*paces, *tick) {
	now := newTick()
	return newPaces(rules, perTenant, now.Now), now
}

// A burst passes; then those who come too early are told one time each, at the
// pace that is allowed.
//
// PROVIDERS requirement 26
func TestPaceRequests(t *testing.T) {
	t.Parallel()
	all, now := newTestPaces(&definition.Pace{Requests: 2, Per: definition.Duration(time.Minute), Burst: 3}, false)
	p := all.of("any")
	for range 3 {
		if release, away := p.take(t.Context()); release == nil {
			t.Fatalf("sent away for %s", away)
		}
	}
	var aways []time.Duration
	for range 3 {
		release, away := p.take(t.Context())
		if release != nil {
			t.Fatal("a turn too much")
		}
		aways = append(aways, away)
	}
	if want := []time.Duration{30 * time.Second, time.Minute, 90 * time.Second}; !slices.Equal(aways, want) {
		t.Errorf("sent away for %v, want %v", aways, want)
	}
	now.now = now.now.Add(30 * time.Second)
	if release, away := p.take(t.Context()); release == nil {
		t.Errorf("after the wait: sent away for %s", away)
	}
	if release, _ := p.take(t.Context()); release != nil {
		t.Error("two turns in one interval")
	}
}

// A short wait is waited for.
func TestPaceWaitsShortly(t *testing.T) {
	t.Parallel()
	all, _ := newTestPaces(&definition.Pace{Requests: 100, Burst: 1}, false)
	p := all.of("")
	begin := time.Now()
	for range 2 {
		if release, away := p.take(t.Context()); release == nil {
			t.Fatalf("sent away for %s", away)
		}
	}
	if waited := time.Since(begin); waited < 9*time.Millisecond {
		t.Errorf("waited for %s only", waited)
	}
}

func TestPaceConcurrency(t *testing.T) {
	t.Parallel()
	all, _ := newTestPaces(&definition.Pace{Concurrency: 1}, false)
	p := all.of("")
	release, _ := p.take(t.Context())
	if second, away := p.take(t.Context()); second != nil || away != busyPause {
		t.Errorf("two at once, or away for %s", away)
	}
	release()
	release() // once is enough
	if third, _ := p.take(t.Context()); third == nil {
		t.Error("the place was not given back")
	}
	if fourth, _ := p.take(t.Context()); fourth != nil {
		t.Error("a place was given back twice")
	}
}

// What one answer says holds for everybody with the same credential, for a while.
func TestPaceLearns(t *testing.T) {
	t.Parallel()
	all, now := newTestPaces(nil, true)
	p := all.of("acme")
	p.learn(10 * time.Second)
	p.learn(time.Second) // less is no news
	if release, away := all.of("acme").take(t.Context()); release != nil || away != 10*time.Second {
		t.Errorf("away for %s", away)
	}
	if release, _ := all.of("beta").take(t.Context()); release == nil {
		t.Error("another credential is held up")
	}
	now.now = now.now.Add(10 * time.Second)
	if release, _ := p.take(t.Context()); release == nil {
		t.Error("held up for too long")
	}
	p.learn(time.Hour)
	if release, away := p.take(t.Context()); release != nil || away != maxLearnt {
		t.Errorf("away for %s", away)
	}
	shared, _ := newTestPaces(nil, false)
	shared.of("acme").learn(time.Second)
	if release, _ := shared.of("beta").take(t.Context()); release != nil {
		t.Error("tenants that share a credential do not share its pace")
	}
}
