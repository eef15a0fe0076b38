package declared

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
)

// Specs describes the action types that a set declares, sorted by name, without
// building what performs them: for those who ask what there is. Rules of keys are
// left out, and so is what gRPC providers describe themselves.
func Specs(set *definition.Set) ([]actions.Spec, error) {
	var specs []actions.Spec
	for _, name := range slices.Sorted(maps.Keys(set.Actions)) {
		a := set.Actions[name]
		spec, err := specOf(set.Providers[a.Provider], a, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: arguments %w", a.Place.File, err)
		}
		specs = append(specs, spec.WithDefaults())
	}
	return specs, nil
}
