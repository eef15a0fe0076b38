package policy

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/ledger"
)

// intent is a goal, as one action type serves it.
type intent struct {
	name  string
	quiet time.Duration
	parts []intentPart
}

type intentPart struct {
	name  string
	value *expr.Expression
}

var partName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// intents compiles the policy's, by action type.
func (c *compiler) intents() map[string][]intent {
	out := map[string][]intent{}
	seen := map[string]bool{}
	for i, in := range c.file.Intents {
		field := at("intents", i)
		switch {
		case in.Name == actions.CallerIntent:
			c.bad(field+".name", "caller is the intent that callers name themselves: take another")
		case seen[in.Name]:
			c.bad(field+".name", "%s is there twice: list its actions together", in.Name)
		}
		seen[in.Name] = true
		if len(in.Actions) == 0 {
			c.bad(field+".actions", "want the action types that serve it, each with its parts")
		}
		if n := len(in.Actions); n > maxServing {
			c.bad(field+".actions", "has %d entries, want at most %d", n, maxServing)
			continue
		}
		var first []string
		for _, actionType := range slices.Sorted(maps.Keys(in.Actions)) {
			own := c.doc.Field("intents", index(i), "actions", actionType)
			if err := checkType(actionType); err != nil || strings.HasSuffix(actionType, "*") {
				c.bad(own, "%q: want the name of one action type: parts come from its arguments", actionType)
			}
			names := slices.Sorted(maps.Keys(in.Actions[actionType]))
			switch {
			case len(names) > maxParts:
				c.bad(own, "has %d parts, want at most %d", len(names), maxParts)
				continue
			case len(names) == 0:
				c.bad(own, "want the parts that tell one goal from another, such as {order: args.order_id}")
			case first == nil:
				first = names
			case !slices.Equal(first, names):
				c.bad(own, "has the parts %s, and another action %s: they would never meet", strings.Join(names, ", "), strings.Join(first, ", "))
			}
			compiled := intent{name: in.Name, quiet: in.Quiet.Std()}
			for _, name := range names {
				part := c.doc.Field("intents", index(i), "actions", actionType, name)
				if !partName.MatchString(name) {
					c.bad(part, "%q: want lower-case letters, digits and _", name)
				}
				value, err := c.parts.Expression(in.Actions[actionType][name])
				if err != nil {
					c.bad(part, "%v", err)
					continue
				}
				compiled.parts = append(compiled.parts, intentPart{name, value})
			}
			out[actionType] = append(out[actionType], compiled)
		}
	}
	return out
}

// defaultIntentIDQuiet is how long a goal that its caller named is done, where the
// policy does not say: a framework that makes a new key for each try comes back
// within minutes, a person who asks once more within the day.
const defaultIntentIDQuiet = 24 * time.Hour

func (p *Policy) intentIDQuiet() time.Duration {
	if p.callerQuiet == nil {
		return defaultIntentIDQuiet
	}
	return *p.callerQuiet
}

// fences are the intents of a request: the action type's own, the policy's, and
// the caller's.
func (f *facts) fences(p *Policy, r *Request) []ledger.Fence {
	var out []ledger.Fence
	add := func(text string, quiet time.Duration) {
		for i := range out {
			if out[i].Intent == text {
				out[i].Quiet = max(out[i].Quiet, quiet)
				return
			}
		}
		out = append(out, ledger.Fence{Intent: text, Quiet: quiet})
	}
	for _, in := range r.Action.Spec.Intents {
		text, err := in.Resolve(r.Args)
		var refused *actions.ArgumentsError
		switch {
		case err == nil:
			add(text, in.Quiet)
		case errors.As(err, &refused):
			for _, v := range refused.Violations {
				v = v.InRequest()
				f.violate(v.Field, v.Reason, v.Message)
			}
		default:
			f.violate(fieldArguments, actions.ReasonIntentPartMissing, "do not say which "+in.Name+" is meant")
		}
	}
	for _, in := range p.intents[r.Action.Spec.Type] {
		if text, ok := f.compose(in); ok {
			add(text, in.quiet)
		}
	}
	if r.IntentID != "" {
		add(actions.ComposeIntent(actions.CallerIntent, []actions.IntentPart{{Name: "id", Value: r.IntentID}}), p.intentIDQuiet())
	}
	return out
}

// compose resolves the parts of a policy's intent.
func (f *facts) compose(in intent) (string, bool) {
	parts, complete := make([]actions.IntentPart, 0, len(in.parts)), true
	for _, part := range in.parts {
		value, ok, err := part.value.Text(expr.Vars{"args": f.args()})
		if err != nil || !ok || value == "" {
			f.violate(fieldOf(part.value), actions.ReasonIntentPartMissing,
				"is missing, empty or not a single value, and the intent "+in.name+" is told apart by it: send it")
			complete = false
			continue
		}
		parts = append(parts, actions.IntentPart{Name: part.name, Value: value})
	}
	return actions.ComposeIntent(in.name, parts), complete
}
