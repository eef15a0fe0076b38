package providers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/internal/yamlfiles"
)

// Options say where definitions are and what is registered beside them.
type Options struct {
	// Paths are files and folders with definitions; none means that there are
	// only Adapters.
	Paths []string
	// Adapters are those that the binary brings itself.
	Adapters []actions.Adapter
	// Declared is how declared providers are reached. Without a Secret in it,
	// secrets are read by ResolveSecret and must be there at the start.
	Declared declared.Options
	// Log is told of every change that was taken over or refused; required.
	Log *slog.Logger
	// Refused is told at each change whether the files as they are now are refused, if
	// set: metrics. It must not block.
	Refused func(refused bool)
	// Interval is the time between two looks at the files; default 2 s.
	Interval time.Duration
	// StartTimeout bounds asking one AdapterService or database at Open and at each
	// change; default 10 s.
	StartTimeout time.Duration
}

// Providers are the action types of an installation, and how its providers'
// webhooks are read. They are safe for concurrent use.
type Providers struct {
	Options
	registry   *actions.Registry
	ownSecrets bool // those of this machine
	sources    atomic.Pointer[map[string]actions.Source]

	mu      sync.Mutex // of what follows
	loaded  loaded
	retired []link // of providers that are gone or changed
}

// loaded is what was made of the files that were read last.
type loaded struct {
	set       *definition.Set
	links     map[string]link              // by provider
	adapters  map[string]actions.Adapter   // by action type, of declared actions
	described map[string][]actions.Adapter // by provider
	digest    yamlfiles.Digest
}

// link is what all actions of one provider share.
type link interface {
	// adapter makes the adapter of an action.
	adapter(a *definition.Action) (actions.Adapter, error)
	// described are the adapters that the provider itself describes.
	described(ctx context.Context) ([]actions.Adapter, error)
	close()
}

// Open reads the definitions and registers what they declare. Every fault fails
// it, with a *definition.FaultsError where a file is wrong or a secret missing.
func Open(ctx context.Context, o Options) (*Providers, error) {
	if o.Refused == nil {
		o.Refused = func(bool) {}
	}
	if o.Interval == 0 {
		o.Interval = 2 * time.Second
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 10 * time.Second
	}
	registry, err := actions.NewRegistry()
	if err != nil {
		return nil, err
	}
	p := &Providers{Options: o, registry: registry, ownSecrets: o.Declared.Secret == nil}
	if p.ownSecrets {
		p.Declared.Secret = ResolveSecret
	}
	p.sources.Store(&map[string]actions.Source{})
	if len(o.Paths) == 0 {
		return p, registry.Replace(o.Adapters...)
	}
	return p, p.Reload(ctx)
}

// Registry has the action types; it changes when the files do.
func (p *Providers) Registry() *actions.Registry { return p.registry }

// Source returns how the webhooks of a provider are read, or nil where it has
// none. Every tenant has all providers.
func (p *Providers) Source(_, provider string) actions.Source {
	source, ok := (*p.sources.Load())[provider]
	if !ok {
		return nil
	}
	return source
}

// Reload reads the definitions again and takes them over, all or none. What did
// not change keeps its connections, tokens and pace; operations that are under
// way keep the version they began with. A provider that did not change and does not
// answer now keeps what it described last: its outage holds up nobody else. The
// errors are those of Open, and then everything is as it was.
func (p *Providers) Reload(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, err := yamlfiles.DigestOf(p.Paths...)
	if err != nil {
		return err
	}
	set, err := definition.Load(p.Paths...)
	if err != nil {
		return err
	}
	if err := p.faultsOf(set); err != nil {
		return err
	}
	next, made, err := p.build(ctx, set)
	if err == nil {
		next.digest = seen
		err = p.take(next)
	}
	if err != nil {
		for _, l := range made {
			l.close()
		}
	}
	return err
}

// faultsOf finds everything that is wrong with a set before anything is made of it.
func (p *Providers) faultsOf(set *definition.Set) error {
	faults, err := declared.Check(set)
	if err != nil {
		return err
	}
	if p.ownSecrets {
		faults = append(faults, MissingSecrets(set)...)
	}
	if len(faults) > 0 {
		return &definition.FaultsError{Faults: faults}
	}
	return nil
}

// build makes links and adapters, and returns the links that are new.
func (p *Providers) build(ctx context.Context, set *definition.Set) (next loaded, made []link, err error) {
	next = loaded{set: set, links: map[string]link{}, adapters: map[string]actions.Adapter{}, described: map[string][]actions.Adapter{}}
	kept := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(set.Providers)) {
		provider := set.Providers[name]
		if last, ok := p.loaded.links[name]; ok && same(p.loaded.set.Providers[name], provider) {
			next.links[name], kept[name] = last, true
			continue
		}
		l, err := p.newLink(provider)
		if err != nil {
			return next, made, fmt.Errorf("%s: %w", provider.Place.File, err)
		}
		next.links[name], made = l, append(made, l)
	}
	for _, actionType := range slices.Sorted(maps.Keys(set.Actions)) {
		a := set.Actions[actionType]
		if last, ok := p.loaded.adapters[actionType]; ok && kept[a.Provider] && same(p.loaded.set.Actions[actionType], a) {
			next.adapters[actionType] = last
			continue
		}
		if next.adapters[actionType], err = next.links[a.Provider].adapter(a); err != nil {
			return next, made, fmt.Errorf("%s: %w", a.Place.File, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.links)) {
		if next.described[name], err = p.ask(ctx, name, next.links[name], kept[name]); err != nil {
			return next, made, fmt.Errorf("%s: %w", set.Providers[name].Place.File, err)
		}
	}
	return next, made, p.checkStatements(ctx, next)
}

// ask lets a provider describe itself. One that is kept may be away.
func (p *Providers) ask(ctx context.Context, name string, l link, kept bool) ([]actions.Adapter, error) {
	asking, cancel := context.WithTimeout(ctx, p.StartTimeout)
	defer cancel()
	described, err := l.described(asking)
	if err == nil || !kept || ctx.Err() != nil {
		return described, err
	}
	p.Log.Warn("a provider does not answer: what it described last stays", "provider", name, "error", err)
	return p.loaded.described[name], nil
}

// take puts what was built in the place of what was there. Links that are gone
// stay open: operations that began with them may still be under way.
func (p *Providers) take(next loaded) error {
	sources := map[string]actions.Source{}
	for name, provider := range next.set.Providers {
		if provider.Webhooks == nil {
			continue
		}
		source, err := declared.NewSource(provider, p.Declared)
		if err != nil {
			return fmt.Errorf("%s: %w", provider.Place.File, err)
		}
		sources[name] = source
	}
	adapters := slices.Clone(p.Adapters)
	for _, actionType := range slices.Sorted(maps.Keys(next.adapters)) {
		adapters = append(adapters, next.adapters[actionType])
	}
	for _, name := range slices.Sorted(maps.Keys(next.described)) {
		for _, adapter := range next.described[name] {
			actionType := adapter.Spec().Type
			if _, taken := next.adapters[actionType]; taken {
				return fmt.Errorf("%s: %s is an action type of another provider too", next.set.Providers[name].Place.File, actionType)
			}
			adapters = append(adapters, adapter)
		}
	}
	if err := p.registry.Replace(adapters...); err != nil {
		return err
	}
	p.sources.Store(&sources)
	for name, l := range p.loaded.links {
		if next.links[name] != l {
			p.retired = append(p.retired, l)
		}
	}
	p.loaded = next
	return nil
}

// same reports whether two definitions say the same, wherever they stand.
func same[T definition.Provider | definition.Action](a, b *T) bool {
	x, y := *a, *b
	forget := func(v any) {
		switch v := v.(type) {
		case *definition.Provider:
			v.Place = definition.Place{}
		case *definition.Action:
			v.Place = definition.Place{}
		}
	}
	forget(&x)
	forget(&y)
	return reflect.DeepEqual(x, y)
}

// Close ends the connections to the providers.
func (p *Providers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range slices.Concat(p.retired, slices.Collect(maps.Values(p.loaded.links))) {
		l.close()
	}
}

var errUnsupported = errors.New("an action cannot be declared on this provider")
