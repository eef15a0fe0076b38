package cases_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/policy/cases"
)

const small = `kind: policy
tenant: acme
version: "1"
allow: [{id: all, actors: ["*"], action_types: ["*"]}]
rules:
  - {id: large, reason: too much, action_types: [pay.send], when: "amount > 10", then: require_approval, approvals: 2, ttl: 1h}
budgets:
  - {id: day, of: spend, currency: EUR, limit: 100, window: {calendar: day}}
intents:
  - {name: bill, actions: {pay.send: {bill: args.bill}}}
`

const table = `kind: policy_test
policy: p.yaml
action_types:
  pay.send: {amount: args.amount, currency: '"EUR"'}
defaults: {action_type: pay.send, actor: a, args: {amount: 5, bill: b}}
cases:
`

func load(t *testing.T, text string) *policy.Policies {
	t.Helper()
	p, err := policy.Load(map[string][]byte{"p.yaml": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDifferences: every wrong expectation is a difference, and a right one none.
func TestDifferences(t *testing.T) {
	t.Parallel()
	policies := load(t, small)
	for entry, want := range map[string]string{
		`{name: n, request: {}, want: {effect: allow, rule: all, amount: "5.00", currency: EUR, charges: {day: 5}, fits: true, intents: ["bill|bill:b"], violations: []}}`: "",
		`{name: n, request: {args: {amount: 10.01, bill: b}}, want: {effect: require_approval, rule: large, approvals: 2, ttl: 1h}}`:                                       "",
		`{name: n, request: {use: {day: 95}}, want: {effect: allow, fits: true}}`:                                                                                          "",
		`{name: n, request: {}, want: {effect: deny}}`:                                                                                                                     "effect is allow, want deny",
		`{name: n, request: {}, want: {effect: allow, rule: large}}`:                                                                                                       "rule is all, want large",
		`{name: n, request: {}, want: {effect: allow, stage: enforce}}`:                                                                                                    "stage is observe, want enforce",
		`{name: n, request: {}, want: {effect: allow, approvals: 1}}`:                                                                                                      "approvals is 0, want 1",
		`{name: n, request: {}, want: {effect: allow, ttl: 1h}}`:                                                                                                           "ttl is 0s, want 1h0m0s",
		`{name: n, request: {}, want: {effect: allow, amount: "5.01"}}`:                                                                                                    "amount is 5, want 5.01",
		`{name: n, request: {}, want: {effect: allow, currency: USD}}`:                                                                                                     "currency is EUR, want USD",
		`{name: n, request: {}, want: {effect: allow, charges: {}}}`:                                                                                                       "charges 5 to the budget day of tenant, want nothing",
		`{name: n, request: {}, want: {effect: allow, charges: {day: 6}}}`:                                                                                                 "charges 5 to the budget day, want 6",
		`{name: n, request: {}, want: {effect: allow, charges: {day: 5, other: 1}}}`:                                                                                       "charges nothing to the budget other, want 1",
		`{name: n, request: {use: {day: "95.01"}}, want: {effect: allow, fits: true}}`:                                                                                     "fits is false (day is exhausted), want true",
		`{name: n, request: {}, want: {effect: allow, fits: false}}`:                                                                                                       "fits is true, want false",
		`{name: n, request: {}, want: {effect: allow, intents: []}}`:                                                                                                       "intents is [bill|bill:b], want []",
		`{name: n, request: {args: {amount: -1, bill: b}}, want: {effect: deny, violations: []}}`:                                                                          "violations is [arguments.amount], want []",
		`{name: n, request: {args: {bill: b}}, want: {effect: allow}}`:                                                                                                     "reason: the arguments do not say",
		`{name: n, request: {roles: [auditor]}, want: {effect: allow}}`:                                                                                                    "rule",
	} {
		read, err := cases.Read("t.yaml", []byte(table+"  - "+entry+"\n"))
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		results, err := read.Run(policies, nil)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		got := strings.Join(results[0].Differences, "\n")
		if (want == "") != (got == "") || want != "rule" && !strings.Contains(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", entry, got, want)
		}
	}
}

// TestArgumentsFitTheSchema: what the service refuses before it asks the policy is
// refused here too, and what is refused before the arguments are looked at still is.
func TestArgumentsFitTheSchema(t *testing.T) {
	t.Parallel()
	specs := []actions.Spec{{Type: "crm.add", Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}},"required":["name"],"additionalProperties":false}`)}}
	for entry, want := range map[string]string{
		`{name: n, request: {action_type: crm.add, args: {name: x, tags: [a]}}, want: {effect: allow, rule: all}}`: "",
		`{name: n, request: {action_type: crm.add, args: {nme: x}}, want: {effect: allow}}`: "effect is deny, want allow\n" +
			"reason: the arguments do not fit the schema of the action type; arguments.name is required",
		`{name: n, request: {action_type: crm.add, args: {name: x, tags: [1]}}, want: {effect: deny, rule: arguments, violations: ["arguments.tags[0]"], stage: observe}}`: "",
		`{name: n, request: {action_type: crm.add, args: {}, roles: [auditor]}, want: {effect: deny, rule: role, violations: []}}`:                                         "",
	} {
		read, err := cases.Read("t.yaml", []byte(table+"  - "+entry+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		results, err := read.Run(load(t, small), specs)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if got := strings.Join(results[0].Differences, "\n"); (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", entry, got, want)
		}
	}
	read, err := cases.Read("t.yaml", []byte(table+"  - {name: n, request: {}, want: {effect: allow}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = read.Run(load(t, small), []actions.Spec{{Type: "a.b", Schema: []byte(`{"type":"list"}`)}}); err == nil || !strings.Contains(err.Error(), "action type a.b: schema: ") {
		t.Errorf("a schema that is none: %v", err)
	}
}

// TestFaultsOfTables: what a table says wrongly is told with its place.
func TestFaultsOfTables(t *testing.T) {
	t.Parallel()
	policies := load(t, small)
	for entry, want := range map[string]string{
		`{name: n, request: {action_type: no.such}, want: {effect: allow}}`: `t.yaml:7:25: cases[0].request.action_type: there is no action type "no.such"`,
		`{name: n, request: {use: {week: 1}}, want: {effect: allow}}`:       `cases[0].request.use: the policy has no budget "week"`,
		`{name: n, request: {at: tomorrow}, want: {effect: allow}}`:         `cases[0].request.at: "tomorrow" is no time`,
		`{name: n, request: {}, want: {effect: perhaps}}`:                   `cases[0].want.effect: want one of`,
		`{name: n, request: {}, want: {effect: allow, charge: 1}}`:          `cases[0].want.charge: there is no such field`,
		`{name: n, request: {use: {day: -1}}, want: {effect: allow}}`:       `cases[0].request.use.day`,
		`{name: n, request: {}}`:                                            `missing: want`,
	} {
		read, err := cases.Read("t.yaml", []byte(table+"  - "+entry+"\n"))
		if err == nil {
			_, err = read.Run(policies, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", entry, err, want)
		}
	}
	read, err := cases.Read("t.yaml", []byte(table+"  - {name: n, request: {}, want: {effect: allow}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = read.Run(policies, []actions.Spec{{Type: "pay.send"}}); err == nil || !strings.Contains(err.Error(), `action_types["pay.send"]: is declared by the files`) {
		t.Errorf("an action type twice: %v", err)
	}
}

// TestExamples proves the tables of the example policies, and that they have one
// for the longer one.
func TestExamples(t *testing.T) {
	t.Parallel()
	tables, err := filepath.Glob("../../examples/policies/*_test.yaml")
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	for _, name := range tables {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		read, err := cases.Read(name, data)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(name), read.File.Policy))
		if err != nil {
			t.Fatal(err)
		}
		results, err := read.Run(load(t, string(text)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if len(r.Differences) > 0 {
				t.Errorf("%s: %s: %q", r.Place, r.Name, r.Differences)
			}
		}
		effects := map[policy.Effect]bool{}
		for _, r := range results {
			effects[r.Decision.Effect] = true
		}
		if !slices.Equal([]bool{effects[policy.Deny], effects[policy.RequireApproval], effects[policy.Allow]}, []bool{true, true, true}) {
			t.Errorf("%s shows only %v", name, effects)
		}
	}
}

// TestDocumentation: the policy and the table that docs/policies.md shows are right.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(page), "```") {
		if text, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML, want a policy and a table", len(blocks))
	}
	read, err := cases.Read("table", []byte(blocks[1]))
	if err != nil {
		t.Fatal(err)
	}
	results, err := read.Run(load(t, blocks[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if len(r.Differences) > 0 {
			t.Errorf("%s: %q", r.Name, r.Differences)
		}
	}
}
