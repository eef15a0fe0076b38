package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/policy"
)

// TestFaults: what is wrong with a policy is refused, with its place.
func TestFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                       "is empty: want kind: policy",
		"kind: action\n":                         "p.yaml:1:1: kind: want policy",
		"[]\n":                                   "want one object",
		"kind: policy\n":                         "missing: tenant, version",
		head + "other: 1\n":                      "p.yaml:5:1: other: there is no such field",
		head + "rules: 1\n":                      "p.yaml:5:1: rules: is number, want array",
		head + "time_zone: Mars\n":               `p.yaml:5:1: time_zone: "Mars" is no time zone`,
		head + "time_zone: Local\n":              `"Local" is no time zone`,
		head + "default: deny\n":                 "p.yaml:5:1: default: with deny, and no rule that allows",
		head + "default: perhaps\n":              `want one of "allow","deny"`,
		head + "---\n" + head:                    "want exactly one document",
		head + "description: &a x\n":             "anchors",
		strings.Replace(head, "acme", `"*"`, 1):  `tenant: "*" is no tenant`,
		strings.Replace(head, `"1"`, `"1 2"`, 1): "version",
		strings.Replace(head, `"1"`, `1`, 1):     "version: is number, want string (put it in quotes)",

		head + "stages: {default: on}\n":                     "stages.default: want one of",
		head + "stages: {action_types: {a.b: on}}\n":         `p.yaml:5:25: stages.action_types["a.b"]: "on": want observe, protect`,
		head + "stages: {action_types: {A: observe}}\n":      `stages.action_types.A: "A": want an action type`,
		head + "stages: {action_types: {\"a*\": observe}}\n": `"a*": want an action type (stripe.refund.create), all that begin alike (stripe.*)`,

		strings.Replace(head, `actors: ["*"], `, "", 1):                      "allow[0]: want actors, roles or both",
		strings.Replace(head, `actors: ["*"]`, "roles: [agent, finance]", 1): `allow[0].roles[1]: "finance" is no role`,
		strings.Replace(head, `["*"], a`, `["a*b"], a`, 1):                   `allow[0].actors[0]: "a*b": want a name`,
		strings.Replace(head, `["*"], a`, `["a b"], a`, 1):                   `allow[0].actors[0]: "a b": want a name`,
		strings.Replace(head, `["*"], a`, `["a", a], a`, 1):                  `allow[0].actors[1]: "a" is there twice`,
		strings.Replace(head, `action_types: ["*"]`, `action_types: []`, 1):  "allow[0].action_types",
		strings.Replace(head, `everyone`, `default`, 1):                      "allow[0].id: default is the name of a check",
		strings.Replace(head, `everyone`, `Every`, 1):                        `allow[0].id: "Every" does not match`,

		head + "rules: [{id: a, reason: b, then: deny}, {id: a, reason: b, then: deny}]\n":                                   "p.yaml:5:42: rules[1].id: a is the id of rules[0] too",
		head + "rules: [{id: everyone, reason: b, then: deny}]\n":                                                            "everyone is the id of allow[0] too",
		head + "rules: [{id: a, then: deny}]\n":                                                                              "rules[0]: missing: reason",
		head + "rules: [{id: a, reason: b., then: deny}]\n":                                                                  "rules[0].reason: want no full stop",
		head + "rules: [{id: a, reason: b, then: deny, approvals: 2}]\n":                                                     "rules[0].approvals: goes with then: require_approval",
		head + "rules: [{id: a, reason: b, then: allow, ttl: 1h}]\n":                                                         "rules[0].ttl: goes with then: require_approval",
		head + "rules: [{id: a, reason: b, then: require_approval, approvals: 0}]\n":                                         "rules[0].approvals",
		head + "rules: [{id: a, reason: b, then: require_approval, ttl: 4}]\n":                                               "rules[0].ttl",
		head + "rules: [{id: a, reason: b, then: refuse}]\n":                                                                 "rules[0].then: want one of",
		head + "rules: [{id: a, reason: b, then: deny, when: \"amount >\"}]\n":                                               "p.yaml:5:40: rules[0].when: at character",
		head + "rules: [{id: a, reason: b, then: deny, when: amount + 1 > 3}]\n":                                             "p.yaml:5:40: rules[0].when: these types do not go together: _+_",
		head + "rules: [{id: a, reason: b, then: deny, when: amount}]\n":                                                     "rules[0].when: is decimal, want true or false",
		head + "rules: [{id: a, reason: b, then: deny, when: price > 1}]\n":                                                  `rules[0].when: at character 1: there is no "price" here; there are action, args`,
		head + "rules: [{id: a, reason: b, then: deny, when: action.typ == \"a\"}]\n":                                        "rules[0].when: action has no typ; it has type, risk, owner, provider",
		head + "rules: [{id: a, reason: b, then: deny, when: run.run_id == \"a\"}]\n":                                        "run has no run_id",
		head + "rules: [{id: a, reason: b, then: deny, when: local.day == 1}]\n":                                             "local has no day",
		head + "rules: [{id: a, reason: b, then: deny, when: actor.id == \"\"}]\n":                                           "actor has no id",
		head + "rules: [{id: a, reason: b, then: deny, when: 'budgets[\"x\"].left < 1'}]\n":                                  `there is no budget "x" in this policy`,
		head + "rules: [{id: a, reason: b, then: deny, when: budgets.x.left < 1}]\n":                                         `there is no budget "x" in this policy`,
		head + "budgets: [{id: x, of: open, limit: 1}]\nrules: [{id: a, reason: b, then: deny, when: budgets.x.rest < 1}]\n": "a budget has no rest; it has limit",

		head + "budgets: [{id: b, of: spend, limit: 1, window: {calendar: day}}]\n":                         "budgets[0]: a budget of spend wants a currency",
		head + "budgets: [{id: b, of: spend, currency: eur, limit: 1, window: {calendar: day}}]\n":          "budgets[0].currency",
		head + "budgets: [{id: b, of: calls, currency: EUR, limit: 1, window: {calendar: day}}]\n":          "budgets[0].currency: goes with of: spend",
		head + "budgets: [{id: b, of: calls, limit: \"1.5\", window: {calendar: day}}]\n":                   "budgets[0].limit: want a whole number",
		head + "budgets: [{id: b, of: calls, limit: -1, window: {calendar: day}}]\n":                        "budgets[0].limit",
		head + "budgets: [{id: b, of: calls, limit: \"1e3\", window: {calendar: day}}]\n":                   "budgets[0].limit",
		head + "budgets: [{id: b, of: calls, limit: \"123456789012345678901\", window: {calendar: day}}]\n": "budgets[0].limit",
		head + "budgets: [{id: b, of: calls, window: {calendar: day}}]\n":                                   "missing: limit",
		head + "budgets: [{id: b, of: calls, limit: 1}]\n":                                                  "budgets[0]: want a window",
		head + "budgets: [{id: b, of: calls, limit: 1, per: [actor]}]\n":                                    "budgets[0]: want a window",
		head + "budgets: [{id: b, of: calls, limit: 1, per: [team], window: {calendar: day}}]\n":            `budgets[0].per[0]: "team": want tenant, actor`,
		head + "budgets: [{id: b, of: calls, limit: 1, per: [run, run]}]\n":                                 "budgets[0].per",
		head + "budgets: [{id: b, of: calls, limit: 1, window: {}}]\n":                                      "want exactly one of calendar and sliding",
		head + "budgets: [{id: b, of: calls, limit: 1, window: {calendar: day, sliding: 1h}}]\n":            "want exactly one of calendar and sliding",
		head + "budgets: [{id: b, of: calls, limit: 1, window: {calendar: year}}]\n":                        "budgets[0].window.calendar: want one of",
		head + "budgets: [{id: b, of: calls, limit: 1, window: {sliding: 500ms}}]\n":                        "budgets[0].window.sliding: want 1s to 400d",
		head + "budgets: [{id: b, of: calls, limit: 1, window: {sliding: 401d}}]\n":                         "budgets[0].window.sliding: want 1s to 400d",
		head + "budgets: [{id: b, of: open, limit: 1, window: {calendar: day}}]\n":                          "budgets[0].window: a budget of open operations has none",

		head + "per_operation: [{action_types: [a.b]}]\n": "per_operation[0]: want max_attempts, max_elapsed or both",
		head + "per_operation: [{max_attempts: 0}]\n":     "per_operation[0].max_attempts",

		head + "intents: [{name: caller, actions: {a.b: {x: args.x}}}]\n":                                    "intents[0].name: caller is the intent that callers name",
		head + "intents: [{name: a, actions: {a.b: {x: args.x}}}, {name: a, actions: {a.c: {x: args.x}}}]\n": "intents[1].name: a is there twice",
		head + "intents: [{name: a, actions: {}}]\n":                                                         "intents[0].actions",
		head + "intents: [{name: a, actions: {a.b: {}}}]\n":                                                  `intents[0].actions["a.b"]: want the parts`,
		head + "intents: [{name: a, actions: {a.*: {x: args.x}}}]\n":                                         "want the name of one action type",
		head + "intents: [{name: a, actions: {a.b: {x: args.x}, a.c: {y: args.y}}}]\n":                       `intents[0].actions["a.c"]: has the parts y, and another action x: they would never meet`,
		head + "intents: [{name: a, actions: {a.b: {X: args.x}}}]\n":                                         `intents[0].actions["a.b"].X: "X": want lower-case`,
		head + "intents: [{name: a, actions: {a.b: {x: run.id}}}]\n":                                         `there is no "run" here; there are args`,
	} {
		_, err := policy.Load(map[string][]byte{"p.yaml": []byte(text)})
		var faults *strictyaml.FaultsError
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestAllFaultsAtOnce: a policy is mended in one go.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := policy.Load(map[string][]byte{
		"a.yaml": []byte(head + "time_zone: Mars\nrules: [{id: a, reason: b, then: deny, when: x}]\nbudgets: [{id: a, of: calls, limit: 1}]\n"),
		"b.yaml": []byte("kind: policy\n"),
	})
	var faults *strictyaml.FaultsError
	if !errors.As(err, &faults) || len(faults.Faults) != 5 {
		t.Errorf("got %v", err)
	}
}

func TestTwoPoliciesOfOneTenant(t *testing.T) {
	t.Parallel()
	_, err := policy.Load(map[string][]byte{"a.yaml": []byte(head), "b.yaml": []byte(head)})
	if err == nil || err.Error() != "b.yaml:2:1: tenant: acme has a policy in a.yaml too" {
		t.Errorf("got %v", err)
	}
	for name, files := range map[string]map[string][]byte{
		"nothing":       nil,
		"only a table":  {"t.yaml": []byte("kind: policy_test\n")},
		"not even YAML": {"t.yaml": []byte("\x00")},
	} {
		if _, err := policy.Load(files); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// TestHugePolicies are refused when they are read, not when they decide.
func TestHugePolicies(t *testing.T) {
	t.Parallel()
	many := func(list string, n int, entry string) string {
		var b strings.Builder
		b.WriteString(list + ":\n")
		for i := range n {
			fmt.Fprintf(&b, "  - "+entry+"\n", i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"rules":      head + many("rules", 101, "{id: r%d, reason: x, then: deny}"),
		"budgets":    head + many("budgets", 51, "{id: b%d, of: open, limit: 1}"),
		"intents":    head + many("intents", 51, "{name: i%d, actions: {a.b: {x: args.x}}}"),
		"bounds":     head + many("per_operation", 101, "{max_attempts: 1%d}"),
		"names":      head + "rules: [{id: a, reason: b, then: deny, action_types: [" + strings.Repeat("a.b,", 501) + "]}]\n",
		"expression": head + "rules: [{id: a, reason: b, then: deny, when: '" + strings.Repeat("true&&", 1000) + "true'}]\n",
		"bytes":      head + "#" + strings.Repeat("x", 256<<10),
		"deep":       head + "description: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n",
	} {
		if _, err := policy.Load(map[string][]byte{"p.yaml": []byte(text)}); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// TestVersion: the file's word and a digest, so that a file that is changed under
// its old version is another policy.
func TestVersion(t *testing.T) {
	t.Parallel()
	one, two := load(t, head), load(t, head+"# a comment\n")
	if one.Version() == two.Version() || !strings.HasPrefix(one.Version(), "1+") || len(one.Version()) != len("1+")+12 {
		t.Errorf("versions %q and %q", one.Version(), two.Version())
	}
	if one.YAML() != head || load(t, head).Version() != one.Version() {
		t.Error("the same file is another policy")
	}
	if (&policy.Policy{}).Version() != "" || policy.AllowAll().For("x").Version() != "allow-all" {
		t.Error("versions without a file")
	}
}

// TestCheck finds what policies name and does not exist.
func TestCheck(t *testing.T) {
	t.Parallel()
	specs := []actions.Spec{
		refund(), {Type: "mail.send", AdvisoryArgs: []string{"note"}, SensitiveArgs: []string{"card.number"}},
		{Type: "pay.credit", Intents: []actions.Intent{{Name: "goal", Parts: []actions.KeyPart{{Name: "order", From: "arguments.order"}}}}},
	}
	for text, want := range map[string]string{
		head: "",
		head + "rules: [{id: a, reason: b, then: deny, action_types: [pay.refund, \"mail.*\"]}]\n":                                  "",
		head + "rules: [{id: a, reason: b, then: deny, action_types: [pay.x]}]\n":                                                   "p.yaml:5:55: rules[0].action_types[0]: there is no action type pay.x",
		head + "rules: [{id: a, reason: b, then: deny, when: amount > 1, action_types: [pay.refund, \"mail.*\"]}]\n":                "",
		head + "rules: [{id: a, reason: b, then: deny, when: amount > 1, action_types: [pay.refund, mail.send]}]\n":                 "rules[0].action_types[1]: mail.send says no amount, and the rule looks at it",
		head + "rules: [{id: a, reason: b, then: deny, when: counterparty == \"x\", action_types: [mail.send]}]\n":                  "mail.send says no counterparty, and the rule looks at it",
		head + "intents: [{name: goal, actions: {mail.send: {order: args.note}}}]\n":                                                "is advisory: who rephrases it",
		head + "intents: [{name: goal, actions: {mail.send: {order: args.card.number}}}]\n":                                         "the argument card.number of mail.send is sensitive",
		head + "intents: [{name: goal, actions: {mail.send: {order: sha256hex(args.card.number)}}}]\n":                              "",
		head + "stages: {action_types: {crm.*: enforce}}\n":                                                                         "no action type begins with crm.",
		head + "per_operation: [{max_attempts: 1, action_types: [pay.x]}]\n":                                                        "per_operation[0].action_types[0]",
		head + "budgets: [{id: b, of: spend, currency: EUR, limit: 1, window: {calendar: day}, action_types: [mail.send]}]\n":       "mail.send says no amount",
		head + "budgets: [{id: b, of: calls, per: [counterparty], limit: 1, window: {calendar: day}, action_types: [mail.send]}]\n": "mail.send says no counterparty",
		head + "intents: [{name: goal, actions: {pay.refund: {order: args.order}}}]\n":                                              "",
		head + "intents: [{name: goal, actions: {pay.refund: {bill: args.order}}}]\n":                                               "the action type pay.credit has the intent goal with the parts order: these never meet",
		head + "intents: [{name: goal, actions: {pay.x: {order: args.order}}}]\n":                                                   `intents[0].actions["pay.x"]: there is no action type pay.x`,
	} {
		p, err := policy.Load(map[string][]byte{"p.yaml": []byte(text)})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		faults := p.Check(specs)
		if (want == "") != (len(faults) == 0) || want != "" && !strings.Contains(faults[0].String(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, faults, want)
		}
	}
}
