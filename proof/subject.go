package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
)

// Subject is an adapter that is to be proved.
type Subject struct {
	// Open makes the adapter and a target of its own for it. It is called for
	// each path, and once more to look at the adapter; all must have the same
	// Spec. What it makes is not used after the target is closed.
	Open func(ctx context.Context, env Env) (actions.Adapter, Target, error)

	// Arguments are a valid example, as JSON.
	Arguments json.RawMessage
	// OtherArguments are valid too and name another action; nil derives them from
	// the example.
	OtherArguments json.RawMessage

	// Secrets are credentials that the adapter holds. They must show up neither
	// in the ledger nor in a receipt.
	Secrets []string

	// Serial says that Open returns the same adapter each time, with a target
	// that was emptied: paths are walked one after another.
	Serial bool

	// UniqueLookup says why a look-up of this adapter cannot find two objects,
	// such as a read by our own id; empty: it can.
	UniqueLookup string

	// Answers are what this provider is known to answer, beyond what every one
	// may: a success that holds an error, a decline. Each is a path of its own,
	// after the others.
	Answers []Answer

	// Acknowledged are dangers that the author knows of and has reasons for, by
	// code: they become warnings.
	Acknowledged map[string]string
}

// Answer is an answer of one provider's own.
type Answer struct {
	// Name is its path's, after "answer-": lower-case words with hyphens.
	Name, Title string
	// Fault makes the target give it to a write; usually one of
	// fakeprovider.OwnAnswer.
	Fault fakeprovider.Fault
}

// Env is what Open is given.
type Env struct {
	// LedgerURL leads to the ledger's database as its owner: for adapters whose
	// effect is a row there.
	LedgerURL string
	// Tenant is the tenant of all that the adapter is called for; empty when it is
	// only looked at.
	Tenant string
}

// sample is a subject that was looked at.
type sample struct {
	Subject
	spec     actions.Spec // with defaults
	action   *actions.Action
	renders  bool
	looks    bool
	example  actions.Arguments
	other    actions.Arguments // where canDiffer
	noOther  string            // why there are no other arguments
	renderer string            // what is wrong with Render
	chosen   []*path           // that are walked
}

// look opens a subject once and checks what can be checked without a run. An
// error means that there is nothing to be proved yet: a contradiction in the
// spec, or an example that is not valid.
func look(ctx context.Context, s Subject, ledgerURL string) (_ *sample, err error) {
	adapter, target, err := s.Open(ctx, Env{LedgerURL: ledgerURL})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	registry, err := actions.NewRegistry(adapter)
	if err != nil {
		return nil, err
	}
	action := registry.All()[0]
	out := &sample{Subject: s, spec: action.Spec, action: action}
	fail := func(what string, err error) error {
		return fmt.Errorf("action type %s: %s: %w", action.Spec.Type, what, err)
	}
	if out.example, err = actions.ParseArguments(s.Arguments); err != nil {
		return nil, fail("example", err)
	}
	if err := action.Validate(out.example); err != nil {
		return nil, fail("example", err)
	}
	if err := checkAnswers(s.Answers); err != nil {
		return nil, fail("answers", err)
	}
	if out.noOther, err = out.findOther(); err != nil {
		return nil, fail("other arguments", err)
	}
	_, out.looks = adapter.(actions.Looker)
	var renderer actions.Renderer
	if renderer, out.renders = adapter.(actions.Renderer); out.renders {
		out.renderer = checkRender(renderer, out)
	}
	return out, nil
}

// checkAnswers refuses names that cannot be a path's.
func checkAnswers(answers []Answer) error {
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	seen := map[string]bool{}
	for _, a := range answers {
		if !name.MatchString(a.Name) || seen[a.Name] {
			return fmt.Errorf("%q: want lower-case words with hyphens, at most 40 characters, each once", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

// name is what the subject is called.
func (s *sample) name() string { return s.spec.Type }

// honoured reports whether the provider executes one key once.
func (s *sample) honoured() bool { return s.spec.Contract.Keys.Honoured }
