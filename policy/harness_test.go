package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

// head begins a policy that lets everyone request everything.
const head = `kind: policy
tenant: acme
version: "1"
allow: [{id: everyone, actors: ["*"], action_types: ["*"]}]
`

func load(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Load(map[string][]byte{"acme.yaml": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p.For("acme")
}

// refund is an action type that spends.
func refund() actions.Spec {
	return actions.Spec{
		Type: "pay.refund", Owner: "payments", Risk: actions.RiskHigh,
		Spending: actions.Spending{Amount: "args.amount", Currency: "args.currency", Counterparty: "args.?to"},
		Contract: actions.Contract{Provider: "fakepay"},
	}
}

func compiled(t testing.TB, spec actions.Spec) *policy.Action {
	t.Helper()
	action, err := policy.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return action
}

func arguments(t testing.TB, text string) actions.Arguments {
	t.Helper()
	args, err := actions.ParseArguments([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// request is one of an agent of acme, on a Monday at 10:00 UTC.
func request(t testing.TB, spec actions.Spec, args string) *policy.Request {
	t.Helper()
	return &policy.Request{
		Principal: policy.Principal{Tenant: "acme", Actor: "planner-1", Roles: []policy.Role{policy.Agent}},
		Action:    compiled(t, spec), Args: arguments(t, args),
		Run: ledger.Run{RunID: "run_1", StepID: "refund", Agent: "support", ToolVersion: "2", Attempt: 1},
		At:  time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC),
	}
}

// inBrief is a decision in one line.
func inBrief(d policy.Decision) string {
	out := d.Effect.String() + " " + d.Rule
	for _, v := range d.Violations {
		out += " " + v.Field + ":" + v.Reason
	}
	return strings.TrimSpace(out)
}
