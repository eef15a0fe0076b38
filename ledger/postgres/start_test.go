package postgres_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

func TestStartClaimsPending(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Pending)
	c := ledgertest.Claiming(op)
	running, err := store.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if running.State != ledger.Running || running.LastEvent != ledger.Claim || running.Effect != ledger.EffectUnknown ||
		running.Attempt != 1 || running.Epoch != 0 || running.Revision != op.Revision+1 || running.Reason != "" {
		t.Errorf("claimed %+v", running)
	}
	if running.RequestHash == nil || *running.RequestHash != c.RequestHash {
		t.Errorf("request hash %v, want it frozen", running.RequestHash)
	}
	if !running.NextAttemptAt.IsZero() || running.FirstSentAt.IsZero() || running.LastSentAt != running.FirstSentAt {
		t.Errorf("times of a first attempt: next %v, first %v, last %v", running.NextAttemptAt, running.FirstSentAt, running.LastSentAt)
	}
	if lease := running.LeaseExpiresAt.Sub(running.LastSentAt); lease != ledgertest.Lease {
		t.Errorf("lease of %v, want %v", lease, ledgertest.Lease)
	}
	if horizon := running.KeyHorizon.Sub(running.FirstSentAt); horizon != ledgertest.Horizon {
		t.Errorf("horizon after %v, want %v", horizon, ledgertest.Horizon)
	}
	attempts := ledgertest.Get(t, store, running).Attempts
	if len(attempts) != 1 || attempts[0].Number != 1 || !attempts[0].EndedAt.IsZero() || attempts[0].Outcome != "" {
		t.Errorf("attempts %+v, want one under way", attempts)
	}
}

func TestStartIsFenced(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	deferred := func(delay time.Duration) func() ledger.Operation {
		return func() ledger.Operation {
			change := ledgertest.Change(inState(t, store, ledger.Running), ledger.Defer)
			change.Delay = delay
			return apply(t, store, change)
		}
	}
	due := deferred(0)
	doubted := func() ledger.Operation { return inState(t, store, ledger.Unknown) }
	leased := func() ledger.Operation { return ledgertest.Leased(t, store, inState(t, store, ledger.Unknown)) }
	aged := func(by time.Duration) func() ledger.Operation {
		return func() ledger.Operation {
			op := leased()
			db.Age(t, op, by)
			return op
		}
	}
	forgotten := func() ledger.Operation {
		op := doubted()
		db.Age(t, op, ledgertest.Horizon)
		return ledgertest.Leased(t, store, op)
	}
	noHorizon := func() ledger.Operation {
		o := ledgertest.Opening(acme)
		o.Start.Horizon = 0
		return ledgertest.Leased(t, store, ledgertest.Moved(t, store, ledgertest.Open(t, store, o), ledger.Doubt))
	}
	givenUp := func(event ledger.Event) func() ledger.Operation {
		return func() ledger.Operation {
			o := ledgertest.Opening(acme)
			o.GiveUp = 5 * time.Minute
			op := ledgertest.Moved(t, store, ledgertest.Open(t, store, o), event)
			if event == ledger.Doubt {
				op = ledgertest.Leased(t, store, op)
			}
			db.Age(t, op, 6*time.Minute)
			return op
		}
	}
	none := func(*ledger.Claiming) {}
	for _, c := range []struct {
		what  string
		make  func() ledger.Operation
		stale func(*ledger.Claiming)
		want  error // nil: it is started
	}{
		{"claim, due", due, none, nil},
		{"claim, not due", deferred(time.Hour), none, ledger.ErrFenced},
		{"claim, past the time that its policy gives it", givenUp(ledger.Defer), none, ledger.ErrFenced},
		{"claim, older attempt", due, func(c *ledger.Claiming) { c.Operation.Attempt-- }, ledger.ErrFenced},
		{"claim, newer attempt", due, func(c *ledger.Claiming) { c.Operation.Attempt++ }, ledger.ErrFenced},
		{"claim, other epoch", due, func(c *ledger.Claiming) { c.Operation.Epoch++ }, ledger.ErrFenced},
		{"claim, other request", due, func(c *ledger.Claiming) { c.RequestHash = ledgertest.Hash("other") }, ledger.ErrFenced},
		{"claim, other tenant", due, func(c *ledger.Claiming) { c.Operation.Tenant = "other" }, ledger.ErrFenced},
		{"claim of unknown", leased, func(c *ledger.Claiming) { c.Event = ledger.Claim }, ledger.ErrIllegalMove},
		{"claim, believed pending", leased, func(c *ledger.Claiming) { c.Event, c.Operation.State = ledger.Claim, ledger.Pending }, ledger.ErrFenced},
		{"replay, leased", leased, none, nil},
		{"replay, past the time that its policy gives it", givenUp(ledger.Doubt), none, ledger.ErrFenced},
		{"replay, never leased", doubted, none, ledger.ErrFenced},
		{"replay, another's lease", leased, func(c *ledger.Claiming) { c.Operation.Lease-- }, ledger.ErrFenced},
		{"replay, lease ran out", aged(ledgertest.Lease + time.Second), none, ledger.ErrFenced},
		{"replay, a moment before the lease ends", aged(ledgertest.Lease - time.Minute), none, nil},
		{"replay, horizon passed", forgotten, none, ledger.ErrFenced},
		{"replay, provider honours no keys", noHorizon, none, ledger.ErrFenced},
		{"replay, other request", leased, func(c *ledger.Claiming) { c.RequestHash = ledgertest.Hash("other") }, ledger.ErrFenced},
		{"replay, older attempt", leased, func(c *ledger.Claiming) { c.Operation.Attempt-- }, ledger.ErrFenced},
		{"replay of pending", due, func(c *ledger.Claiming) { c.Event = ledger.Replay }, ledger.ErrIllegalMove},
		{"replay, believed unknown", due, func(c *ledger.Claiming) { c.Event, c.Operation.State = ledger.Replay, ledger.Unknown }, ledger.ErrFenced},
	} {
		op := c.make()
		claiming := ledgertest.Claiming(op)
		c.stale(&claiming)
		if c.want == nil {
			if running, err := store.Start(t.Context(), claiming); err != nil || running.State != ledger.Running {
				t.Errorf("%s: %s, %v; want it running", c.what, running.State, err)
			}
			continue
		}
		unchanged(t, db, op, c.what, func() {
			_, err := store.Start(t.Context(), claiming)
			wantError(t, c.what, err, c.want)
		})
	}
}

// The provider forgets our key some time after it saw it first: a later send
// does not make it remember longer.
func TestReplayKeepsTheHorizonAndTheKey(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := inState(t, store, ledger.Unknown)
	db.Age(t, op, time.Hour)
	leased := ledgertest.Leased(t, store, op)
	replayed := ledgertest.Moved(t, store, leased, ledger.Replay)
	if replayed.KeyHorizon != leased.KeyHorizon || replayed.FirstSentAt != leased.FirstSentAt || !replayed.LastSentAt.After(leased.LastSentAt.Add(30*time.Minute)) {
		t.Errorf("horizon %v → %v, first sent %v → %v, last sent %v → %v", leased.KeyHorizon, replayed.KeyHorizon,
			leased.FirstSentAt, replayed.FirstSentAt, leased.LastSentAt, replayed.LastSentAt)
	}
	if !replayed.InDoubt || replayed.Epoch != leased.Epoch || replayed.Attempt != 2 {
		t.Errorf("replayed: in doubt %v, epoch %d, attempt %d", replayed.InDoubt, replayed.Epoch, replayed.Attempt)
	}
	settledWithHorizon(t, store, replayed, leased.KeyHorizon)
}

// Once an attempt has its receipt, whether all attempts had one key at a provider
// that knew it still matters: where there were several (dispatch.EndsAll).
func TestTheHorizonOfASingleAttemptIsDropped(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	settledWithHorizon(t, store, inState(t, store, ledger.Running), time.Time{})
}

// settledWithHorizon confirms an attempt, and looks at the horizon that is left: in
// the answer, and in the row.
func settledWithHorizon(t *testing.T, store *postgres.Store, op ledger.Operation, want time.Time) {
	t.Helper()
	settled := apply(t, store, ledgertest.Change(op, ledger.Confirm))
	stored, err := store.GetByKey(t.Context(), op.Tenant, op.Key)
	if err != nil {
		t.Fatal(err)
	}
	if !settled.KeyHorizon.Equal(want) || !stored.KeyHorizon.Equal(want) {
		t.Errorf("after %d attempts the horizon is %v, in the row %v; want %v", op.Attempt, settled.KeyHorizon, stored.KeyHorizon, want)
	}
}

// A new epoch is a new key: what was frozen for the old one is free again.
func TestNewEpochThawsRequestAndHorizon(t *testing.T) {
	t.Parallel()
	store, _ := ledgertest.NewStore(t)
	change := ledgertest.Change(inState(t, store, ledger.Running), ledger.Defer)
	change.BumpEpoch = true
	op, err := store.Apply(t.Context(), change)
	if err != nil || op.Epoch != 1 || op.RequestHash != nil || !op.KeyHorizon.IsZero() {
		t.Fatalf("deferred to epoch %d with request %v, horizon %v: %v", op.Epoch, op.RequestHash, op.KeyHorizon, err)
	}
	claiming := ledgertest.Claiming(op)
	claiming.RequestHash = ledgertest.Hash("the request under the new key")
	op, err = store.Start(t.Context(), claiming)
	if err != nil || *op.RequestHash != claiming.RequestHash || op.KeyHorizon.IsZero() || op.Attempt != 2 {
		t.Errorf("claimed %+v, %v", op, err)
	}
}

// Leases and due times are the database's: a replica whose own clock is wrong
// neither takes over early nor waits too long.
func TestTimersUseTheDatabasesClock(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	var before, after time.Time
	owner := db.Owner(t)
	now := func(at *time.Time) {
		t.Helper()
		if err := owner.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(at); err != nil {
			t.Fatal(err)
		}
	}
	now(&before)
	running := inState(t, store, ledger.Running)
	change := ledgertest.Change(inState(t, store, ledger.Running), ledger.Doubt)
	change.Delay = time.Hour
	unknown := apply(t, store, change)
	leased := ledgertest.Leased(t, store, inState(t, store, ledger.Unknown))
	done := inState(t, store, ledger.Succeeded)
	now(&after)
	for what, got := range map[string]time.Time{
		"created":       running.CreatedAt,
		"sent":          running.LastSentAt,
		"lease":         running.LeaseExpiresAt.Add(-ledgertest.Lease),
		"horizon":       running.KeyHorizon.Add(-ledgertest.Horizon),
		"doubted":       unknown.DoubtedAt,
		"next look-up":  unknown.NextAttemptAt.Add(-time.Hour),
		"row lease":     leased.LeaseExpiresAt.Add(-ledgertest.Lease),
		"window's end":  done.WindowEndsAt.Add(-ledgertest.Window),
		"last change":   done.UpdatedAt,
		"attempt ended": done.Attempts[0].EndedAt,
	} {
		if got.Before(before) || got.After(after) {
			t.Errorf("%s: %v is not between %v and %v by the database's clock", what, got, before, after)
		}
	}
}
