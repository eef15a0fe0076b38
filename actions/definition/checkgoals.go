package definition

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions"
)

// goals checks what budgets, intents and reviews need of an action.
func (c *checker) goals(a *Action, properties map[string]any) {
	if s := a.Spending; s != nil {
		switch {
		case s.Amount == "" && s.Currency == "" && s.Counterparty == "":
			c.fault("spending", "is empty: want an amount with its currency, a counterparty, or both")
		case s.Amount != "" && s.Currency == "":
			c.fault("spending", "an amount wants a currency: 100 of what?")
		case s.Amount == "" && s.Currency != "":
			c.fault("spending.currency", "goes with an amount")
		}
	}
	names := map[string]bool{}
	for i, intent := range a.Intents {
		field := fmt.Sprintf("intents[%d]", i)
		if intent.Name == actions.CallerIntent {
			c.fault(field+".name", "caller is the intent that callers name themselves: take another")
		}
		if names[intent.Name] {
			c.fault(field+".name", "%q is used twice", intent.Name)
		}
		names[intent.Name] = true
		c.intentParts(field, a, intent, properties)
	}
	if a.Sensitive != nil {
		c.sensitive(a, properties)
	}
}

func (c *checker) intentParts(field string, a *Action, intent Intent, properties map[string]any) {
	names := map[string]bool{}
	for i, part := range intent.Parts {
		at := fmt.Sprintf("%s.parts[%d]", field, i)
		if names[part.Name] {
			c.fault(at+".name", "%q is used twice", part.Name)
		}
		names[part.Name] = true
		path, isArgument := strings.CutPrefix(part.From, "arguments.")
		if !isArgument || !argumentPath.MatchString(path) {
			c.fault(at+".from", "want arguments.<path>: a goal is told by what it is about, whoever asks for it in whichever run")
			continue
		}
		top, _, _ := strings.Cut(path, ".")
		if _, known := properties[top]; !known {
			c.fault(at+".from", "the arguments have no property %q", top)
		}
		if slices.Contains(a.AdvisoryArgs, top) {
			c.fault(at+".from", "%q is advisory: it cannot identify the goal", top)
		}
	}
}

// argumentPath is names with dots between.
var argumentPath = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}([.][A-Za-z0-9_-]{1,64})*$`)

func (c *checker) sensitive(a *Action, properties map[string]any) {
	for i, path := range a.Sensitive.Arguments {
		field := fmt.Sprintf("sensitive.arguments[%d]", i)
		if !argumentPath.MatchString(path) {
			c.fault(field, "want names of letters, digits, _ and - with dots between")
			continue
		}
		top, _, _ := strings.Cut(path, ".")
		if _, known := properties[top]; !known {
			c.fault(field, "the arguments have no property %q", top)
		}
	}
	for i, name := range a.Sensitive.Receipt {
		// What the receipt of a statement or a mail holds is not said here.
		if a.Receipt == nil {
			continue
		}
		if _, known := a.Receipt.Fields[name]; !known {
			c.fault(fmt.Sprintf("sensitive.receipt[%d]", i), "the receipt has no field %q", name)
		}
	}
}

// sharedIntents wants the same part names wherever an intent is named: with
// others, two actions would look as if they shared it and never meet.
func (s *Set) sharedIntents() []Fault {
	type use struct{ action, parts string }
	first := map[string]use{}
	var faults []Fault
	for _, name := range slices.Sorted(maps.Keys(s.Actions)) {
		a := s.Actions[name]
		for i, intent := range a.Intents {
			var parts []string
			for _, part := range intent.Parts {
				parts = append(parts, part.Name)
			}
			slices.Sort(parts)
			now := use{name, strings.Join(parts, ", ")}
			was, known := first[intent.Name]
			if !known {
				first[intent.Name] = now
				continue
			}
			if was.parts != now.parts {
				faults = append(faults, s.Fault(a.Place.File, fmt.Sprintf("intents[%d].parts", i), fmt.Sprintf(
					"%s has the parts %s here and %s in %s: two actions share an intent under the same part names alone",
					intent.Name, now.parts, was.parts, was.action)))
			}
		}
	}
	return faults
}
