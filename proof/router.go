package proof

import (
	"context"
	"errors"

	"github.com/onceward/onceward/actions"
)

// router is the adapter that the runner knows: it hands each call to the adapter
// of the path whose tenant it comes from. It has the abilities of the adapters
// behind it, no more and no fewer.
type router struct {
	sample *sample
	spec   actions.Spec
	stages *stages
}

var _ actions.Adapter = (*router)(nil)

// newRouter makes the adapter of a subject.
func newRouter(s *sample, stages *stages) actions.Adapter {
	r := &router{sample: s, spec: hurried(s.spec), stages: stages}
	switch {
	case s.renders && s.looks:
		return struct {
			*router
			rendering
			looking
		}{r, rendering{r}, looking{r}}
	case s.renders:
		return struct {
			*router
			rendering
		}{r, rendering{r}}
	case s.looks:
		return struct {
			*router
			looking
		}{r, looking{r}}
	default:
		return r
	}
}

// Spec implements actions.Adapter.
func (r *router) Spec() actions.Spec { return r.spec }

// Validate implements actions.Adapter. It is pure, so that any of the adapters
// can answer.
func (r *router) Validate(args actions.Arguments) error {
	return r.sample.action.Adapter.Validate(args)
}

// Execute implements actions.Adapter.
func (r *router) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	s := r.of(call)
	if s == nil {
		return actions.Outcome{Failure: actions.Failure{Evidence: "the path is over"}}
	}
	return s.execute(ctx, call)
}

func (r *router) of(call actions.Call) *stage { return r.stages.of(call.Tenant, r.spec.Type) }

// errOver: an operation is tried again after its path has ended.
var errOver = errors.New("proof: the path is over")

type rendering struct{ of *router }

// Render implements actions.Renderer.
func (r rendering) Render(call actions.Call) ([]byte, error) {
	s := r.of.of(call)
	if s == nil {
		return nil, errOver
	}
	renderer, ok := s.adapter.(actions.Renderer)
	if !ok {
		return nil, errors.New("proof: the adapter renders on some paths and not on others")
	}
	return renderer.Render(call)
}

type looking struct{ of *router }

// Lookup implements actions.Looker.
func (l looking) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	s := l.of.of(query.Call)
	if s == nil {
		return actions.Finding{Detail: errOver.Error()}
	}
	looker, ok := s.adapter.(actions.Looker)
	if !ok {
		return actions.Finding{Detail: "the adapter looks up on some paths and not on others"}
	}
	return s.look(ctx, looker, query)
}
