package crashpoint

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/ledger"
)

// remembers is a ledger that remembers what was asked of it, and fails when it is told
// to.
type remembers struct {
	app.Ledger
	asked []string
	err   error
}

func (r *remembers) Open(context.Context, ledger.Opening) (ledger.Operation, bool, error) {
	r.asked = append(r.asked, "open")
	return ledger.Operation{}, r.err == nil, r.err
}

func (r *remembers) Start(context.Context, ledger.Claiming) (ledger.Operation, error) {
	r.asked = append(r.asked, "start")
	return ledger.Operation{}, r.err
}

func (r *remembers) Apply(context.Context, ledger.Change) (ledger.Operation, error) {
	r.asked = append(r.asked, "apply")
	return ledger.Operation{}, r.err
}

func (r *remembers) LeaseUnknown(context.Context, int, time.Duration) ([]ledger.Operation, error) {
	r.asked = append(r.asked, "lease")
	return make([]ledger.Operation, 1), r.err
}

// A life of an operation that touches every point.
func live(ctx context.Context, l app.Ledger) {
	_, _, _ = l.Open(ctx, ledger.Opening{})
	_, _ = l.Apply(ctx, ledger.Change{Operation: ledger.Operation{State: ledger.Running}})
	_, _ = l.LeaseUnknown(ctx, 1, time.Second)
	_, _ = l.Start(ctx, ledger.Claiming{})
	_, _ = l.Apply(ctx, ledger.Change{Operation: ledger.Operation{State: ledger.Unknown}})
}

// died is what Die panics with here: nothing after the point may happen.
type died struct{}

// lifeUntil lives with a point armed, and says what the ledger was asked before the end.
func lifeUntil(t *testing.T, at Point, store *remembers) (where Point) {
	t.Helper()
	crasher := &Crasher{Ledger: store, Die: func(p Point) { where = p; panic(died{}) }}
	crasher.Arm(at)
	defer func() {
		if r := recover(); r != nil && r != any(died{}) {
			panic(r)
		}
	}()
	live(t.Context(), crasher)
	return where
}

func TestEachPoint(t *testing.T) {
	for at, asked := range map[Point][]string{
		None:         {"open", "apply", "lease", "start", "apply"},
		BeforeClaim:  nil,
		AfterClaim:   {"open"},
		BeforeSettle: {"open"},
		AfterSettle:  {"open", "apply"},
		AfterLease:   {"open", "apply", "lease"},
		BeforeAgain:  {"open", "apply", "lease"},
		AfterAgain:   {"open", "apply", "lease", "start"},
		BeforeMove:   {"open", "apply", "lease", "start"},
	} {
		t.Run(string(at), func(t *testing.T) {
			store := &remembers{}
			where := lifeUntil(t, at, store)
			if where != at || !slices.Equal(store.asked, asked) {
				t.Errorf("it died at %q, and the ledger was asked %v, want %v", where, store.asked, asked)
			}
		})
	}
	if len(Points()) != 8 {
		t.Errorf("a point is not tested: %v", Points())
	}
}

// "After" is after it was written: what failed was not.
func TestNotAfterAFailure(t *testing.T) {
	for _, at := range []Point{AfterClaim, AfterSettle, AfterAgain} {
		if where := lifeUntil(t, at, &remembers{err: ledger.ErrUnavailable}); where != None {
			t.Errorf("%s: it died though nothing was written", at)
		}
	}
}
