package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// Fake is a fake provider as a [Target]: on a port of its own, by a [Clock] of
// its own. Make it with [StartFake] or [Serve].
type Fake struct {
	Provider *fakeprovider.Provider
	Server   *fakeprovider.Server
	// Reference is what the provider's answers call an effect; nil is its id, and
	// an empty text says that it cannot be told. Set it before the path begins.
	Reference func(fakeprovider.Effect) string
	clock     *Clock
}

var _ Target = (*Fake)(nil)

// StartFake starts a fake provider on loopback, by a clock of its own in place of
// that of the options. Close it.
func StartFake(o fakeprovider.Options) (*Fake, error) {
	clock := &Clock{}
	o.Clock = clock
	return Serve(fakeprovider.New(o), clock)
}

// Serve starts a fake provider that was made with this clock. Its look-ups must
// not lag by themselves for longer than [LookupLag]. Close the result; the
// provider is then done with.
func Serve(p *fakeprovider.Provider, clock *Clock) (*Fake, error) {
	// A loopback address that nobody else uses, where the system has more than
	// one: a paused server must get its port back, and among many that start and
	// stop somebody would have taken it.
	own := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)) //nolint:gosec // no secret
	server, err := fakeprovider.Start(p, own)
	if err != nil {
		server, err = fakeprovider.Start(p, "")
	}
	if err != nil {
		return nil, err
	}
	return &Fake{Provider: p, Server: server, clock: clock}, nil
}

// URL is the provider's base URL, without a slash at its end.
func (f *Fake) URL() string { return f.Server.URL() }

// Next implements Target.
func (f *Fake) Next(faults ...fakeprovider.Fault) error { return script(f.Provider.Next, faults) }

// NextLookup implements Target.
func (f *Fake) NextLookup(faults ...fakeprovider.Fault) error {
	return script(f.Provider.NextLookup, faults)
}

func script(add func(...fakeprovider.Fault), faults []fakeprovider.Fault) error {
	var errs []error
	for _, fault := range faults {
		errs = append(errs, fault.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	add(faults...)
	return nil
}

// Pending implements Target.
func (f *Fake) Pending() int { return f.Provider.PendingFaults() }

// Pause implements Target.
func (f *Fake) Pause() error { return f.Server.Pause() }

// Resume implements Target.
func (f *Fake) Resume() error { return f.Server.Resume() }

// Advance implements Target.
func (f *Fake) Advance(d time.Duration) error {
	f.clock.Advance(d)
	return nil
}

// Effects implements Target.
func (f *Fake) Effects() []Effect {
	var effects []Effect
	for _, e := range f.Provider.Effects() {
		reference := e.ID
		if f.Reference != nil {
			reference = f.Reference(e)
		}
		effects = append(effects, Effect{Reference: reference})
	}
	return effects
}

// Requests implements Target. Calls for an access token and the like are left
// out.
func (f *Fake) Requests() []Request {
	var requests []Request
	for _, r := range f.Provider.Requests() {
		if r.Kind == fakeprovider.KindOther {
			continue
		}
		requests = append(requests, Request{
			Write: r.Kind == fakeprovider.KindWrite, Key: r.Key, Digest: r.Method + " " + r.Target + " " + r.BodySHA256,
			Effect: r.EffectID != "", Status: r.Status, Fault: r.Fault,
		})
	}
	return requests
}

// Quiet implements Target.
func (f *Fake) Quiet(ctx context.Context) error {
	return f.Provider.WaitFinished(ctx, len(f.Provider.Requests()))
}

// Close implements Target.
func (f *Fake) Close() error { return f.Server.Close() }
