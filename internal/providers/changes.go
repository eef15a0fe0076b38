package providers

import (
	"maps"
	"reflect"
	"slices"

	"github.com/onceward/onceward/actions/definition"
)

// definitions are those in use.
func (p *Providers) definitions() *definition.Set {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded.set
}

// logChanges says what a change has changed. An action that is sent in another way
// under its old version is told apart: operations that are under way and were sent
// differently can only go to a person.
func (p *Providers) logChanges(before, after *definition.Set) {
	var added, changed, removed []string
	compare(before.Providers, after.Providers, &added, &changed, &removed)
	compare(before.Actions, after.Actions, &added, &changed, &removed)
	p.Log.Info("definitions changed: taken over", "action_types", len(p.registry.All()), "added", added, "changed", changed, "removed", removed)
	for _, name := range changed {
		was, is := before.Actions[name], after.Actions[name]
		if is == nil || was.Version != is.Version {
			continue
		}
		if !reflect.DeepEqual(was.Request, is.Request) || !reflect.DeepEqual(was.Statement, is.Statement) || !reflect.DeepEqual(was.Mail, is.Mail) {
			p.Log.Warn("an action is sent in another way under its old version: open operations of it may go to a person; change its version",
				"action_type", name, "version", is.Version)
		}
	}
}

// compare sorts names by what became of their definitions.
func compare[T definition.Provider | definition.Action](before, after map[string]*T, added, changed, removed *[]string) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		switch was, ok := before[name]; {
		case !ok:
			*added = append(*added, name)
		case !same(was, after[name]):
			*changed = append(*changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			*removed = append(*removed, name)
		}
	}
}
