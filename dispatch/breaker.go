package dispatch

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// ProviderOpenError: the provider did not answer others, and nothing is sent to
// it for a while. Nothing was recorded or sent.
type ProviderOpenError struct {
	Provider   string
	RetryAfter time.Duration
}

func (e *ProviderOpenError) Error() string {
	return fmt.Sprintf("dispatch: provider %s does not answer; nothing is sent to it for %s", e.Provider, e.RetryAfter.Round(time.Millisecond))
}

// RetryBudgetError: as many further attempts went to the provider in the last
// minute as may. Nothing was sent.
type RetryBudgetError struct {
	Provider   string
	RetryAfter time.Duration
}

func (e *RetryBudgetError) Error() string {
	return fmt.Sprintf("dispatch: the retry budget of provider %s is used up for %s", e.Provider, e.RetryAfter.Round(time.Millisecond))
}

// Later reports whether an error of Attempt means only that the attempt has to
// wait for its provider, and how long.
func Later(err error) (wait time.Duration, ok bool) {
	var open *ProviderOpenError
	var spent *RetryBudgetError
	switch {
	case errors.As(err, &open):
		return open.RetryAfter, true
	case errors.As(err, &spent):
		return spent.RetryAfter, true
	default:
		return 0, false
	}
}

// Admit reports whether a new operation of an action may be claimed now. It
// fails with a *ProviderOpenError, which is to be given before anything is
// recorded. It takes nothing: where several are admitted while one attempt may
// try an open provider, the others are deferred.
func (d *Dispatcher) Admit(tenant string, action *actions.Action) error {
	err := d.gates.of(tenant, action.Spec.Contract).admit()
	if err != nil {
		d.held(action.Spec.Contract.Provider, err)
	}
	return err
}

// gates are the gates of all tenants' providers.
type gates struct {
	log *slog.Logger
	mu  sync.RWMutex
	all map[gateKey]*gate
	// sweepAt is how many there are when those that keep nobody are dropped.
	sweepAt int
}

// gateKey: what one tenant's writes come to never stops another's (L10), whose
// account with the provider is another one; and a provider whose rules change
// begins anew with the new ones.
type gateKey struct {
	tenant, provider string
	rules            actions.Protection
}

// streakLife is how long failures in a row are remembered while nothing is sent:
// what failed before that says little about now.
const streakLife = 10 * time.Minute

// keptGates is how many gates are kept before idle ones are dropped, some 1 KB
// each.
const keptGates = 4096

func newGates(log *slog.Logger) *gates {
	return &gates{log: log, all: map[gateKey]*gate{}, sweepAt: keptGates}
}

func (g *gates) of(tenant string, c actions.Contract) *gate {
	key := gateKey{tenant, c.Provider, c.Protection.WithDefaults()}
	if found := g.known(key); found != nil {
		return found
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.all[key]
	if found == nil {
		if len(g.all) >= g.sweepAt {
			maps.DeleteFunc(g.all, func(_ gateKey, known *gate) bool { return known.idle(time.Now()) })
			g.sweepAt = max(keptGates, 2*len(g.all))
		}
		found = newGate(key.provider, key.rules, g.log.With("tenant", tenant))
		g.all[key] = found
	}
	found.used.Store(time.Now().Unix())
	return found
}

// known is a gate that there is, or nil. It is marked as used before it could be
// dropped for being idle.
func (g *gates) known(key gateKey) *gate {
	g.mu.RLock()
	defer g.mu.RUnlock()
	found := g.all[key]
	if found != nil {
		found.used.Store(time.Now().Unix())
	}
	return found
}

// gateOf is a gate and whose it is.
type gateOf struct {
	tenant string
	gate   *gate
}

func (g *gates) list() []gateOf {
	g.mu.RLock()
	defer g.mu.RUnlock()
	list := make([]gateOf, 0, len(g.all))
	for key, known := range g.all {
		list = append(list, gateOf{key.tenant, known})
	}
	return list
}

// gate is what one process lets through to one provider of one tenant. It is safe for
// concurrent use.
type gate struct {
	provider string
	rules    actions.Protection
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	retries  *retryBudget
	log      *slog.Logger

	used atomic.Int64 // when it was asked for last, in seconds since 1970

	mu    sync.Mutex
	until time.Time // when it was opened: nothing before
}

// tryAgain is how long to wait for the one attempt that tries an open provider.
const tryAgain = time.Second

var (
	errFailed  = errors.New("the provider failed")
	errNeutral = errors.New("nothing is known of the provider")
)

func newGate(provider string, rules actions.Protection, log *slog.Logger) *gate {
	g := &gate{provider: provider, rules: rules, log: log, retries: newRetryBudget(rules)}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: provider, Timeout: rules.OpenFor,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= rules.Failures },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: g.changed,
	})
	return g
}

// idle reports whether a gate would be as good as a new one, but for the retries
// of the last minute, or was not asked for in a long time.
func (g *gate) idle(now time.Time) bool {
	if now.Unix()-g.used.Load() > int64(max(streakLife, g.rules.OpenFor)/time.Second) {
		return true
	}
	return g.breaker.State() == gobreaker.StateClosed && g.breaker.Counts().ConsecutiveFailures == 0
}

// isOpen reports whether nothing at all is let through.
func (g *gate) isOpen() bool { return g.breaker.State() == gobreaker.StateOpen }

func (g *gate) changed(_ string, _, to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		g.mu.Lock()
		g.until = time.Now().Add(g.rules.OpenFor)
		g.mu.Unlock()
		g.log.Warn("provider does not answer: nothing is sent to it for a while", "provider", g.provider, "for", g.rules.OpenFor)
	case gobreaker.StateHalfOpen:
		g.log.Info("provider is tried with one attempt", "provider", g.provider)
	case gobreaker.StateClosed:
		g.log.Info("provider answers again", "provider", g.provider)
	}
}

// admit fails while the circuit is open, or somebody tries it.
func (g *gate) admit() error {
	switch g.breaker.State() {
	case gobreaker.StateClosed:
		return nil
	case gobreaker.StateHalfOpen:
		if c := g.breaker.Counts(); c.Requests <= c.TotalExclusions {
			return nil
		}
	case gobreaker.StateOpen:
	}
	return g.open()
}

func (g *gate) open() *ProviderOpenError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &ProviderOpenError{Provider: g.provider, RetryAfter: max(time.Until(g.until), tryAgain)}
}

// again takes a place for an attempt that may be a further one. giveBack is for
// one that was not made.
func (g *gate) again(op ledger.Operation, event ledger.Event) (giveBack func(), err error) {
	if err := g.admit(); err != nil {
		return nil, err
	}
	// Who was turned away by a rate limit comes when it was told to.
	turnedAway := event == ledger.Claim && op.Reason == actions.RateLimited.String()
	if op.Attempt == 0 || turnedAway {
		return func() {}, nil
	}
	took, wait, first := g.retries.take(time.Now())
	if !took {
		if first {
			g.log.Warn("retry budget of provider is used up: further attempts wait", "provider", g.provider)
		}
		return nil, &RetryBudgetError{Provider: g.provider, RetryAfter: wait}
	}
	return func() { g.retries.giveBack(time.Now()) }, nil
}

// through makes an attempt, unless the circuit has opened since it was admitted.
func (g *gate) through(op ledger.Operation, attempt func() actions.Outcome) actions.Outcome {
	report, err := g.breaker.Allow()
	if err != nil {
		open := g.open()
		// As a rate limit of ours: it says nothing about the request, and no
		// attempt is used up.
		return actions.Outcome{Kind: actions.RateLimited, RetryAfter: open.RetryAfter, Failure: actions.Failure{
			Code: "provider_open", Message: "Nothing was sent: the provider does not answer at the moment.",
			Evidence: fmt.Sprintf("held back for %s by the circuit of %s, 0 bytes offered", open.RetryAfter.Round(time.Millisecond), g.provider),
		}}
	}
	if op.Attempt <= 1 {
		g.retries.first(time.Now())
	}
	outcome := attempt()
	report(meaning(outcome))
	return outcome
}

// meaning is what an outcome says about the provider: it failed (errFailed), it
// answered (nil), or neither. Who proves that nothing was applied may be the
// provider in trouble or a pace of ours.
func meaning(o actions.Outcome) error {
	switch o.Kind {
	case actions.Applied, actions.AppliedNoReceipt, actions.Accepted, actions.InProgress, actions.MaybeOurs, actions.KeyMismatch, actions.Rejected:
		return nil
	case actions.RateLimited:
		return errNeutral
	case actions.NotApplied:
		if o.Unreached {
			return errFailed
		}
		return errNeutral
	default: // Ambiguous, and whatever an adapter makes up
		return errFailed
	}
}
