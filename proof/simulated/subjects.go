package simulated

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/proof"
	"github.com/onceward/onceward/simulator"
)

// Subjects returns one subject for each action of a set, sorted by type. It
// fails where an action cannot be simulated: with a *definition.FaultsError that
// says which field is missing, or because its provider does not speak HTTP.
func Subjects(set *definition.Set) ([]proof.Subject, error) {
	var subjects []proof.Subject
	var faults []definition.Fault
	for _, a := range slices.SortedFunc(maps.Values(set.Actions), byType) {
		p := set.Providers[a.Provider]
		if p.Adapter != definition.AdapterHTTP {
			return nil, fmt.Errorf("%s: %s is on a provider with adapter: %s, and only HTTP is simulated", a.Place.File, a.Type, p.Adapter)
		}
		if _, err := simulator.New(p, []*definition.Action{a}, simulator.Options{}); err != nil {
			var these *definition.FaultsError
			if !errors.As(err, &these) {
				return nil, err
			}
			faults = append(faults, these.Faults...)
			continue
		}
		s, err := subject(p, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Place.File, err)
		}
		subjects = append(subjects, s)
	}
	if len(faults) > 0 {
		return nil, &definition.FaultsError{Faults: faults}
	}
	return subjects, nil
}

func byType(a, b *definition.Action) int { return cmp.Compare(a.Type, b.Type) }

// subject puts the simulated provider before one action.
func subject(p *definition.Provider, a *definition.Action) (proof.Subject, error) {
	example, err := json.Marshal(a.Examples[0].Arguments)
	if err != nil {
		return proof.Subject{}, err
	}
	play, err := newPlay(p, a)
	if err != nil {
		return proof.Subject{}, err
	}
	s := proof.Subject{
		Arguments: example,
		Answers:   answers(p, a),
		Open: func(context.Context, proof.Env) (actions.Adapter, proof.Target, error) {
			return play.open()
		},
	}
	for _, ref := range p.Secrets() {
		s.Secrets = append(s.Secrets, simulator.Secret(ref))
	}
	if !slices.ContainsFunc(a.Lookups, func(l definition.Lookup) bool { return l.Items != "" }) {
		s.UniqueLookup = "each look-up reads one object by its name"
	}
	if a.Doubt == "person" {
		s.Acknowledged = map[string]string{"no_resolution": "the action says doubt: person"}
	}
	return s, nil
}

// play is an action that is opened for each path: compiled once, before a
// provider of its own each time.
type play struct {
	provider   *definition.Provider
	action     *definition.Action
	connection *declared.Connection
	adapter    actions.Adapter
}

func newPlay(p *definition.Provider, a *definition.Action) (*play, error) {
	connection, err := declared.NewConnection(p, optionsFor("http://127.0.0.1:9")) // nobody goes there
	if err != nil {
		return nil, err
	}
	adapter, err := declared.HTTP(connection, a)
	return &play{p, a, connection, adapter}, err
}

func optionsFor(url string) declared.Options {
	return declared.Options{
		Secret:          func(ref definition.Secret, _ string) (string, error) { return simulator.Secret(ref), nil },
		BaseURL:         func(string) string { return url },
		PrivateNetworks: httpaction.Loopback(),
		Now:             proof.HastyClock(),
	}
}

// open starts a provider and leads the adapter there.
func (p *play) open() (actions.Adapter, proof.Target, error) {
	clock := &proof.Clock{}
	provider, err := simulator.New(p.provider, []*definition.Action{p.action}, simulator.Options{Clock: clock, LookupLag: proof.LookupLag})
	if err != nil {
		return nil, nil, err
	}
	fake, err := proof.Serve(provider, clock)
	if err != nil {
		return nil, nil, err
	}
	connection, err := p.connection.At(optionsFor(fake.URL()))
	if err != nil {
		return nil, nil, errors.Join(err, fake.Close())
	}
	adapter, _ := declared.On(p.adapter, connection) // the connection is of the same provider
	return adapter, fake, nil
}

// answers are the answers that the rules of an action come with: each is given
// to a write, before it is applied and, where the rule does not say that nothing
// was, after.
func answers(p *definition.Provider, a *definition.Action) []proof.Answer {
	var out []proof.Answer
	add := func(prefix string, rules []definition.Rule) {
		for i, r := range rules {
			if r.Simulate == nil {
				continue
			}
			name := fmt.Sprintf("%soutcomes[%d]", prefix, i)
			applied := r.Is == "applied" || r.Is == "applied_no_receipt" || r.Is == "accepted"
			out = append(out, proof.Answer{
				Name:  strings.NewReplacer("outcomes[", "rule-", "]", "", ".", "-").Replace(name),
				Title: fmt.Sprintf("the provider's own answer: %s (%s)", r.Is, name),
				Fault: fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: name, Apply: applied},
			})
		}
	}
	add("", a.Outcomes)
	add("provider.", p.Outcomes)
	return out
}
