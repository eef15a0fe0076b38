package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/simulator"
)

// stage is the providers that dev plays itself, by name; empty without --simulate.
type stage map[string]actor

// actor is one provider that is played, and requests to try on it.
type actor struct {
	*fakeprovider.Server
	requests []string
}

// simulate starts a simulator for each HTTP provider of the configuration.
func (c *devCmd) simulate() (_ stage, err error) {
	out := stage{}
	if !c.Simulate {
		return out, nil
	}
	if len(c.Config) == 0 {
		return out, fmt.Errorf("%w: --simulate plays the providers of --config, and there is none", errUsage)
	}
	set, err := definition.Load(c.Config...)
	if err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.close())
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(set.Providers)) {
		p := set.Providers[name]
		if p.Adapter != definition.AdapterHTTP {
			continue
		}
		var performed []*definition.Action
		for _, a := range set.Actions {
			if a.Provider == name {
				performed = append(performed, a)
			}
		}
		fake, err := simulator.New(p, performed, simulator.Options{})
		if err != nil {
			return out, err
		}
		server, err := fakeprovider.Start(fake, "")
		if err != nil {
			return out, fmt.Errorf("simulate %s: %w", name, err)
		}
		requests, err := exampleRequests(performed)
		out[name] = actor{server, requests}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// options lead declared providers to their simulators. A provider that joined
// later has none, and is led nowhere.
func (s stage) options() declared.Options {
	if len(s) == 0 {
		return declared.Options{}
	}
	return declared.Options{
		Secret: func(ref definition.Secret, _ string) (string, error) { return simulator.Secret(ref), nil },
		BaseURL: func(provider string) string {
			if server, ok := s[provider]; ok {
				return server.URL()
			}
			return "http://127.0.0.1:9" // the discard service: nobody listens
		},
		PrivateNetworks: httpaction.Loopback(),
	}
}

func (s stage) print(out streams) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(out.out, "Simulated: %s at %s (%[2]s/_fake/ says what it can do)\n", name, s[name].URL())
		for _, request := range s[name].requests {
			fmt.Fprintf(out.out, "  %s\n", request)
		}
	}
}

// exampleRequests are commands that request each action with its first example.
func exampleRequests(acts []*definition.Action) ([]string, error) {
	var out []string
	for _, a := range acts {
		if len(a.Examples) == 0 {
			continue
		}
		var arguments strings.Builder
		enc := json.NewEncoder(&arguments)
		enc.SetEscapeHTML(false) // a person reads it
		if err := enc.Encode(a.Examples[0].Arguments); err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("onceward request %s %s --run=run_1 --step=%s", a.Type, shellQuote(strings.TrimSpace(arguments.String())), a.Type))
	}
	slices.Sort(out)
	return out, nil
}

func (s stage) close() error {
	var errs []error
	for _, server := range s {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
