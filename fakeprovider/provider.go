package fakeprovider

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Provider is the fake provider: its data, its script and its HTTP handler.
// Make it with [New]. It is safe for concurrent use.
type Provider struct {
	opts    Options
	control http.Handler
	made    atomic.Int64 // effects, over resets, so that no id comes twice
	changed bell         // rings when an effect, a request or an answer is there
	world   atomic.Pointer[world]
}

// world is everything that Reset throws away. A request keeps the world in
// which it began, so that a late write cannot reach the next one.
type world struct {
	store  store
	keys   keyring
	log    requestLog
	script script
	ended  chan struct{}

	mu    sync.Mutex
	gates map[string]*Gate // named by the control API
}

// New returns a provider without effects and faults. It panics if a resource
// lacks what it must have: that is a mistake in the program.
func New(opts Options) *Provider {
	p := &Provider{opts: opts.withDefaults()}
	for _, res := range p.opts.Resources {
		if res.Name == "" || res.Path == "" || res.Answer == nil {
			panic("fakeprovider: a resource needs a name, a path and an answer: " + res.Name + " " + res.Path)
		}
	}
	p.world.Store(p.newWorld())
	p.control = p.controls()
	return p
}

func (p *Provider) newWorld() *world {
	return &world{
		store: store{unique: map[uniqueValue]*object{}},
		keys:  keyring{entries: map[scopedKey]*keyEntry{}},
		log:   requestLog{limit: p.opts.MaxRequests, attempts: map[string]int{}},
		ended: make(chan struct{}),
		gates: map[string]*Gate{},
	}
}

func (p *Provider) current() *world { return p.world.Load() }

// Reset forgets effects, keys, requests, faults and gates. Requests that are
// being worked on are cut; what they would still apply is lost with the rest.
func (p *Provider) Reset() {
	old := p.world.Swap(p.newWorld())
	close(old.ended)
	p.changed.ring()
}

// Handler serves the control API under /_fake/ and the provider's own
// everywhere else. It needs HTTP/1 to be able to cut connections.
func (p *Provider) Handler() http.Handler { return http.HandlerFunc(p.handle) }

// handle does not use an http.ServeMux for the provider's API: it would answer
// an unclean path with a redirect of its own.
func (p *Provider) handle(rw http.ResponseWriter, r *http.Request) {
	if isControl(r) {
		p.control.ServeHTTP(rw, r)
		return
	}
	p.serve(rw, r)
}

func isControl(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/_fake/") }

// Next gives the next writes these faults, one each and in order, after
// faults that were scripted before. A fault goes to a request with good
// credentials, whatever becomes of it. Next panics if a fault cannot be scripted
// ([Fault.Validate]): that is a mistake in the test.
func (p *Provider) Next(faults ...Fault) { p.add(arrival.isWrite, false, faults) }

// NextLookup is [Provider.Next] for look-ups.
func (p *Provider) NextLookup(faults ...Fault) { p.add(arrival.isLookup, false, faults) }

// ForMatch gives these faults to the next requests that match, of any method,
// one each and in order. They go before those of Next, and earlier calls of
// ForMatch go before later ones. It panics as Next does.
func (p *Provider) ForMatch(match Predicate, faults ...Fault) {
	p.add(func(a arrival) bool { return match(a.r, a.body) }, true, faults)
}

func (p *Provider) add(match func(arrival) bool, specific bool, faults []Fault) {
	for _, f := range faults {
		if err := f.Validate(); err != nil {
			panic("fakeprovider: " + err.Error())
		}
	}
	if len(faults) > 0 {
		p.current().script.add(match, specific, slices.Clone(faults))
	}
}

// ClearFaults drops the faults that no request has taken.
func (p *Provider) ClearFaults() { p.current().script.clear() }

// PendingFaults counts the faults that no request has taken, so that a test
// can tell that its script was played to the end.
func (p *Provider) PendingFaults() int { return p.current().script.pending() }

// Effects returns all effects, oldest first.
func (p *Provider) Effects() []Effect { return p.current().store.all() }

// EffectsFor returns the effects whose write named this operation id.
func (p *Provider) EffectsFor(operationID string) []Effect {
	return p.EffectsWhere(func(e Effect) bool { return e.OperationID == operationID })
}

// EffectsOn returns the effects on one natural key: [RefundOf], [MailOf],
// [ContactOf], or what a resource of yours says.
func (p *Provider) EffectsOn(naturalKey string) []Effect {
	return p.EffectsWhere(func(e Effect) bool { return e.NaturalKey == naturalKey })
}

// EffectsWhere returns the effects that the predicate accepts, oldest first.
func (p *Provider) EffectsWhere(accept func(Effect) bool) []Effect {
	return slices.DeleteFunc(p.Effects(), func(e Effect) bool { return !accept(e) })
}

// Objects returns what the effects of a resource made, newest first, whatever
// look-ups can see of it.
func (p *Provider) Objects(resource string) []Object {
	return p.current().store.visible(resource, &Lookup{ByID: true}, p.opts.Clock.Now())
}

// Requests returns the remembered requests, oldest first, with those that are
// being worked on.
func (p *Provider) Requests() []Request { return p.current().log.all() }

// WaitEffects returns once there are at least n effects, or an error that
// wraps the context's and says how many there were.
func (p *Provider) WaitEffects(ctx context.Context, n int) error {
	return p.waitFor(ctx, n, "effects", func(w *world) int { return w.store.count() })
}

// WaitRequests returns once at least n requests have arrived, look-ups
// included, or an error as WaitEffects does.
func (p *Provider) WaitRequests(ctx context.Context, n int) error {
	return p.waitFor(ctx, n, "requests", func(w *world) int { received, _ := w.log.counts(); return received })
}

// WaitFinished returns once the provider is done with at least n requests, or
// an error as WaitEffects does. A request whose client has left counts when
// the provider has stopped working on it.
func (p *Provider) WaitFinished(ctx context.Context, n int) error {
	return p.waitFor(ctx, n, "finished requests", func(w *world) int { _, finished := w.log.counts(); return finished })
}

func (p *Provider) waitFor(ctx context.Context, n int, what string, count func(*world) int) error {
	return p.changed.await(ctx, func() error {
		if got := count(p.current()); got < n {
			return fmt.Errorf("fakeprovider: %d of %d %s", got, n, what)
		}
		return nil
	})
}

// advance moves the clock, if it is one that can be moved.
func (p *Provider) advance(d time.Duration) bool {
	clock, manual := p.opts.Clock.(interface{ Advance(time.Duration) })
	if manual {
		clock.Advance(d)
	}
	return manual
}

// gate returns the gate of a name, made at its first mention.
func (w *world) gate(name string) *Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	g, known := w.gates[name]
	if !known {
		g = NewGate()
		w.gates[name] = g
	}
	return g
}
