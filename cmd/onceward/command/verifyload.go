package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/proof"
	"github.com/onceward/onceward/proof/simulated"
)

// loadSubjects reads declared providers and actions and puts a simulated
// provider before each. It says what is left out.
func loadSubjects(s streams, paths []string) (subjects []proof.Subject, closeAll func() error, err error) {
	set, err := loadDefinitions(paths)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDefinitions(set); err != nil {
		return nil, nil, err
	}
	if err := leaveOut(s, set); err != nil {
		return nil, nil, err
	}
	subjects, err = simulated.Subjects(set)
	return subjects, func() error { return nil }, err
}

// leaveOut takes away what cannot be simulated, and says so, so that nobody takes
// it for proved. When nothing remains, that is an error.
func leaveOut(s streams, set *definition.Set) error {
	for _, name := range slices.Sorted(maps.Keys(set.Providers)) {
		if p := set.Providers[name]; p.Adapter == definition.AdapterGRPC {
			fmt.Fprintf(s.err, "%s: not proved here: its process describes and makes the calls; prove it with actions/actionstest\n", p.Place.File)
		}
	}
	left := 0
	for _, actionType := range slices.Sorted(maps.Keys(set.Actions)) {
		a := set.Actions[actionType]
		if p := set.Providers[a.Provider]; p.Adapter != definition.AdapterHTTP {
			fmt.Fprintf(s.err, "%s: not proved here: %s is on a provider with adapter: %s, and only HTTP is simulated\n", a.Place.File, actionType, p.Adapter)
			delete(set.Actions, actionType)
			continue
		}
		left++
	}
	if left == 0 {
		return errors.New("the files hold no action type of an HTTP provider, so that there is nothing to verify")
	}
	return nil
}
