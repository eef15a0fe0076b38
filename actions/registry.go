package actions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Action is a registered action type: its adapter, its spec with defaults
// filled in, and its compiled schema. It is immutable and safe for concurrent
// use.
type Action struct {
	Adapter Adapter
	Spec    Spec
	schema  *Schema
}

// Validate checks arguments against the schema and then by the adapter. It
// returns nil or an *ArgumentsError.
func (a *Action) Validate(args Arguments) error {
	if err := a.schema.Validate(args); err != nil {
		return err
	}
	return a.Adapter.Validate(args)
}

// Registry is the set of action types that a server knows. It is safe for
// concurrent use. What it returned stays valid when it changes.
type Registry struct {
	now atomic.Pointer[registered]
	mu  sync.Mutex // of Replace
}

// registered is what a registry has at one time. It is immutable.
type registered struct {
	byType map[string]*Action
	sorted []*Action
	// superseded are actions of other versions, which operations that are under
	// way began with, by type and newest last; at most maxSuperseded of a type.
	superseded map[string][]*Action
}

// maxSuperseded bounds what a registry keeps whose files change all the time. An
// operation that began with a version before those goes on as after a restart.
const maxSuperseded = 32

// version names one rendering of an action type.
type version struct{ actionType, adapter, contract string }

func versionOf(a *Action) version {
	return version{a.Spec.Type, a.Spec.Version, a.Spec.Contract.Version}
}

// NewRegistry checks every adapter's spec and compiles its schema. It reports
// all faults at once; a registry with a fault is not made.
func NewRegistry(adapters ...Adapter) (*Registry, error) {
	r := &Registry{}
	if err := r.Replace(adapters...); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace puts other adapters in the place of those that the registry has. With
// a fault in any of them nothing changes. New requests get the new actions;
// operations that began with another version go on with it ([Registry.At]), as
// long as this registry lives; of each type it keeps the last few dozen versions.
func (r *Registry) Replace(adapters ...Adapter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := register(adapters)
	if err != nil {
		return err
	}
	if last := r.now.Load(); last != nil {
		next.supersede(last)
	}
	r.now.Store(next)
	return nil
}

// supersede keeps what another registry had and this one has not.
func (r *registered) supersede(last *registered) {
	for actionType, known := range last.superseded {
		r.superseded[actionType] = slices.Clone(known) // readers have the other slice
	}
	for _, a := range last.sorted {
		r.superseded[a.Spec.Type] = append(without(r.superseded[a.Spec.Type], versionOf(a)), a)
	}
	for actionType, known := range r.superseded {
		if present, ok := r.byType[actionType]; ok {
			known = without(known, versionOf(present))
		}
		r.superseded[actionType] = known[max(0, len(known)-maxSuperseded):]
	}
}

func without(known []*Action, v version) []*Action {
	return slices.DeleteFunc(known, func(a *Action) bool { return versionOf(a) == v })
}

func register(adapters []Adapter) (*registered, error) {
	r := &registered{byType: make(map[string]*Action, len(adapters)), superseded: map[string][]*Action{}}
	var errs []error
	for _, ad := range adapters {
		spec := ad.Spec().WithDefaults()
		fault := func(err error) { errs = append(errs, fmt.Errorf("action type %q: %w", spec.Type, err)) }
		if err := spec.check(); err != nil {
			fault(err)
			continue
		}
		if _, taken := r.byType[spec.Type]; taken {
			fault(errors.New("registered twice"))
			continue
		}
		schema, err := CompileSchema(spec.Type, spec.Schema)
		if err != nil {
			fault(err)
			continue
		}
		action := &Action{Adapter: ad, Spec: spec, schema: schema}
		r.byType[spec.Type] = action
		r.sorted = append(r.sorted, action)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(r.sorted, func(a, b *Action) int { return strings.Compare(a.Spec.Type, b.Spec.Type) })
	return r, checkShared(r.sorted)
}

// Get returns the action of a type, or false when it is not registered.
func (r *Registry) Get(actionType string) (*Action, bool) {
	a, ok := r.now.Load().byType[actionType]
	return a, ok
}

// At returns the action of a type as an operation began with it: the one of the
// versions that it has on record where this registry knows it, else the present
// one (what is frozen decides then whether it may be sent). It returns false when
// neither is there.
func (r *Registry) At(actionType, adapterVersion, contractVersion string) (*Action, bool) {
	now := r.now.Load()
	present, ok := now.byType[actionType]
	if wanted := (version{actionType, adapterVersion, contractVersion}); !ok || versionOf(present) != wanted {
		for _, a := range now.superseded[actionType] {
			if versionOf(a) == wanted {
				return a, true
			}
		}
	}
	return present, ok
}

// All returns the actions sorted by type. The slice must not be changed.
func (r *Registry) All() []*Action { return r.now.Load().sorted }

// SensitiveReceipts are the receipt fields that any action type of a provider
// calls sensitive, in a version that is registered or was.
func (r *Registry) SensitiveReceipts(provider string) []string {
	var fields []string
	now := r.now.Load()
	for _, present := range now.sorted {
		for _, a := range append([]*Action{present}, now.superseded[present.Spec.Type]...) {
			if a.Spec.Contract.Provider == provider {
				fields = append(fields, a.Spec.SensitiveReceipt...)
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}
