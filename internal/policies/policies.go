package policies

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // images have no time zones, and a policy that names one must load there too

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/internal/yamlfiles"
	"github.com/onceward/onceward/policy"
)

// Options say where policies are.
type Options struct {
	// Paths are files and folders with policies, one file a tenant; at least one.
	// Tables of cases beside them are left alone.
	Paths []string
	// Specs returns the action types that there are now: what policies name and does
	// not exist is logged as a warning. Nil: that is not looked at.
	Specs func() []actions.Spec
	// Log is told of every change that was taken over or refused; required.
	Log *slog.Logger
	// Refused is told at each change whether the files as they are now are refused, if
	// set: metrics. It must not block.
	Refused func(refused bool)
	// Interval is the time between two looks at the files; default 2 s.
	Interval time.Duration
}

// Policies are those of an installation that are in force. They are safe for
// concurrent use.
type Policies struct {
	Options
	current atomic.Pointer[policy.Policies]

	mu     sync.Mutex // of what follows, and of a reload
	digest yamlfiles.Digest
}

var errNoPaths = errors.New("policies: no paths")

// Open reads the policies. Every fault fails it, with a *strictyaml.FaultsError
// where a file is wrong.
func Open(o Options) (*Policies, error) {
	if len(o.Paths) == 0 {
		return nil, errNoPaths
	}
	if o.Refused == nil {
		o.Refused = func(bool) {}
	}
	if o.Interval == 0 {
		o.Interval = 2 * time.Second
	}
	p := &Policies{Options: o}
	if err := p.Reload(); err != nil {
		return nil, err
	}
	return p, nil
}

// For returns the policy of a tenant that is in force now. For a tenant that has
// none it denies. The zero Policies deny everything.
func (p *Policies) For(tenant string) *policy.Policy {
	current := p.current.Load()
	if current == nil {
		return &policy.Policy{}
	}
	return current.For(tenant)
}

// Tenants are those that have a policy, sorted.
func (p *Policies) Tenants() []string {
	current := p.current.Load()
	if current == nil {
		return nil
	}
	return current.Tenants()
}

// Reload reads the policies again and takes them over, all or none. The errors are
// those of Open, and then everything is as it was: a fault in the policy of one
// tenant holds up the changes of all, and is logged until it is gone.
func (p *Policies) Reload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, err := yamlfiles.DigestOf(p.Paths...)
	if err != nil {
		return err
	}
	files, err := yamlfiles.Read(p.Paths...)
	if err != nil {
		return err
	}
	next, err := policy.Load(files)
	if err != nil {
		return err
	}
	p.logChanges(p.current.Load(), next)
	p.digest = seen
	p.current.Store(next)
	return nil
}

// logChanges says whose policy is another one now, and warns of what it names in
// vain.
func (p *Policies) logChanges(before, after *policy.Policies) {
	if before == nil {
		before = &policy.Policies{}
	}
	for _, tenant := range after.Tenants() {
		if was, is := before.For(tenant).Version(), after.For(tenant).Version(); was != is {
			p.Log.Info("policy in force", "tenant", tenant, "version", is, "before", was)
		}
	}
	for _, tenant := range before.Tenants() {
		if after.For(tenant).Version() == "" {
			p.Log.Warn("policy gone: every request of the tenant is refused", "tenant", tenant, "before", before.For(tenant).Version())
		}
	}
	if p.Specs == nil {
		return
	}
	for _, f := range after.Check(p.Specs()) {
		p.Log.Warn("a policy does not fit the action types", "place", f.Place.String(), "field", f.Field, "problem", f.Problem)
	}
}

// Watch looks at the files every Interval until ctx ends, and takes changes over; at
// once at SIGHUP. A change is taken when two looks in a row see the same, so that a
// file that is being written is not read in its middle. A change that is refused is
// logged with its place, and the last good policies stay in force; it is tried again
// at every look, and logged again when the reason is another.
func (p *Policies) Watch(ctx context.Context) {
	yamlfiles.Watch(ctx, yamlfiles.Watching{
		Paths: p.Paths, Interval: p.Interval, Taken: p.taken, TakeOver: p.takeOver,
		Back: func() {
			p.Refused(false)
			p.Log.Info("policies changed back: they are what is in force")
		},
	})
}

// taken is the digest of what is in force.
func (p *Policies) taken() yamlfiles.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.digest
}

// takeOver reloads. It returns the reason of a refusal; the one that is known
// already is not said again.
func (p *Policies) takeOver(_ context.Context, known string) (refused string) {
	err := p.Reload()
	p.Refused(err != nil)
	switch {
	case err == nil:
		return ""
	case err.Error() == known:
		return known
	}
	const said = "policies changed: refused, the last good ones stay in force"
	var faults *strictyaml.FaultsError
	if !errors.As(err, &faults) {
		p.Log.Error(said, "error", err)
		return err.Error()
	}
	for _, f := range faults.Faults {
		p.Log.Error(said, "place", f.Place.String(), "field", f.Field, "problem", f.Problem)
	}
	return err.Error()
}
