package actions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Registry is the set of action types that a server knows. It is immutable
// and safe for concurrent use.
type Registry struct {
	byType map[string]*Action
	sorted []*Action
}

// NewRegistry checks every adapter's spec and compiles its schema. It reports
// all faults at once; a registry with a fault is not made.
func NewRegistry(adapters ...Adapter) (*Registry, error) {
	r := &Registry{byType: make(map[string]*Action, len(adapters))}
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
	return r, nil
}

// Get returns the action of a type, or false when it is not registered.
func (r *Registry) Get(actionType string) (*Action, bool) {
	a, ok := r.byType[actionType]
	return a, ok
}

// All returns the actions sorted by type. The slice must not be changed.
func (r *Registry) All() []*Action { return r.sorted }
