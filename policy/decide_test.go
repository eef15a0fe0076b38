package policy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

const cheap = `{"amount":"5.00","currency":"eur","to":"dana"}`

// TestZeroDenies: nothing listed, nothing allowed.
func TestZeroDenies(t *testing.T) {
	t.Parallel()
	r := request(t, refund(), cheap)
	for name, p := range map[string]*policy.Policy{
		"zero":        {},
		"no policies": new(policy.Policies).For("acme"),
		"no grants":   load(t, "kind: policy\ntenant: acme\nversion: \"1\"\n"),
		"another's":   load(t, head),
	} {
		r := *r
		if name == "another's" {
			r.Principal.Tenant = "globex"
		}
		if d := p.Decide(&r); d.Effect != policy.Deny || d.Rule == "" || d.Reason == "" || !d.Holds.Empty() {
			t.Errorf("%s: %+v", name, d)
		}
		if d := p.DecideType(r.Principal, &r.Action.Spec); d.Effect != policy.Deny || (d.Stage == "") != (name != "no grants") {
			t.Errorf("%s: the type: %+v", name, d)
		}
		if p.Charges(&r) != nil {
			t.Errorf("%s: charges", name)
		}
	}
	if load(t, head).Stage("a.b") != ledger.StageObserve {
		t.Error("a policy that says no stage is no observer")
	}
	// To observe is to tell planners to go on: no policy does not say that.
	if stage := (&policy.Policy{}).Stage("a.b"); stage != "" {
		t.Errorf("without a policy it is in the stage %s", stage)
	}
}

// An operation is remembered longer than its arguments may be: what it has of them is
// no part of their text, which it would keep.
func TestDecisionsKeepNoArguments(t *testing.T) {
	t.Parallel()
	const grant = "kind: policy\ntenant: acme\nversion: \"1\"\nallow: [{id: g, roles: [agent], action_types: [\"*\"]}]\n"
	for _, args := range []string{`{"amount":"12","currency":"EUR","to":"dana"}`, `{"amount":"12.50","currency":"eur","to":"dana"}`} {
		r := request(t, refund(), args)
		d := load(t, grant).Decide(r)
		if d.Effect != policy.Allow || d.Amount == "" || d.Currency != "EUR" {
			t.Fatalf("%s: %+v", args, d)
		}
		for path, kept := range map[string]string{"amount": d.Amount, "currency": d.Currency} {
			if text, ok := r.Args.Text(path); !ok || unsafe.StringData(text) == unsafe.StringData(kept) {
				t.Errorf("%s: %s %q is a part of the arguments", args, path, kept)
			}
		}
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	const begin = "kind: policy\ntenant: acme\nversion: \"1\"\nallow: ["
	for grant, want := range map[string]string{
		`{id: g, actors: [planner-1], action_types: [pay.refund]}`:                    "allow g",
		`{id: g, actors: ["planner-*"], action_types: ["pay.*"]}`:                     "allow g",
		`{id: g, actors: ["*"], action_types: ["*"]}`:                                 "allow g",
		`{id: g, roles: [agent], action_types: ["*"]}`:                                "allow g",
		`{id: g, actors: ["*"], agents: [support], action_types: ["*"]}`:              "allow g",
		`{id: g, actors: [planner], action_types: ["*"]}`:                             "deny not_allowed",
		`{id: g, actors: ["planner-2*"], action_types: ["*"]}`:                        "deny not_allowed",
		`{id: g, actors: ["*"], action_types: [pay.refunds, "pa.*", "pay.refund.*"]}`: "deny not_allowed",
		`{id: g, roles: [auditor], action_types: ["*"]}`:                              "deny not_allowed",
		`{id: g, actors: [planner-1], roles: [auditor], action_types: ["*"]}`:         "deny not_allowed",
		`{id: g, actors: ["*"], agents: [sales], action_types: ["*"]}`:                "deny not_allowed",
		// The first that fits is named.
		`{id: a, actors: [x], action_types: ["*"]}, {id: b, actors: ["*"], action_types: ["*"]}, {id: c, actors: ["*"], action_types: ["*"]}`: "allow b",
	} {
		if got := inBrief(load(t, begin+grant+"]\n").Decide(request(t, refund(), cheap))); got != want {
			t.Errorf("%s: got %s, want %s", grant, got, want)
		}
	}
}

// TestOrderOfRules is the order that docs/policies.md promises.
func TestOrderOfRules(t *testing.T) {
	t.Parallel()
	const (
		allow  = `{id: yes, reason: r, then: allow}`
		deny   = `{id: no, reason: r, then: deny}`
		ask    = `{id: ask, reason: r, then: require_approval}`
		asks2  = `{id: ask2, reason: r, then: require_approval, approvals: 2, ttl: 2h}`
		asks2b = `{id: ask2b, reason: r, then: require_approval, approvals: 2, ttl: 1h}`
		fails  = `{id: fails, reason: r, when: args.missing == 1, then: %s}`
		never  = `{id: never, reason: r, when: "false", then: deny}`
	)
	for _, c := range []struct {
		rules, end, want string
		approvals        int
		ttl              time.Duration
	}{
		{"", "", "allow everyone", 0, 0},
		{allow, "", "allow yes", 0, 0},
		{never, "", "allow everyone", 0, 0},
		{allow + "," + deny, "", "deny no", 0, 0},
		{ask + "," + deny, "", "deny no", 0, 0},
		{allow + "," + ask, "", "require_approval ask", 1, 24 * time.Hour},
		{ask + "," + allow, "", "require_approval ask", 1, 24 * time.Hour},
		{ask + "," + asks2, "", "require_approval ask2", 2, 2 * time.Hour},
		{asks2 + "," + asks2b + "," + ask, "", "require_approval ask2", 2, time.Hour},
		{fmt.Sprintf(fails, "allow"), "", "deny fails", 0, 0},
		{fmt.Sprintf(fails, "deny"), "", "deny fails", 0, 0},
		{fmt.Sprintf(fails, "require_approval"), "", "deny fails", 0, 0},
		{deny + "," + fmt.Sprintf(fails, "allow"), "", "deny no", 0, 0},
		{never, "default: deny\n", "deny default", 0, 0},
		{allow, "default: deny\n", "allow yes", 0, 0},
		{ask, "default: deny\n", "require_approval ask", 1, 24 * time.Hour},
	} {
		if c.end != "" && c.rules == never { // a policy that allows nothing is refused when it is read
			c.rules += `,{id: others, reason: r, action_types: [x.y], then: allow}`
		}
		d := load(t, head+"rules: ["+c.rules+"]\n"+c.end).Decide(request(t, refund(), cheap))
		if inBrief(d) != c.want || d.Approvals != c.approvals || d.ApprovalTTL != c.ttl {
			t.Errorf("%s: got %s with %d approvals in %s", c.rules, inBrief(d), d.Approvals, d.ApprovalTTL)
		}
		if strings.Contains(c.want, "fails") != (d.Err != nil) {
			t.Errorf("%s: cause %v", c.rules, d.Err)
		}
	}
}

// TestConditions: what rules see.
func TestConditions(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]string{
		`action.type == "pay.refund" && action.risk == "high" && action.owner == "payments" && action.provider == "fakepay"`: "deny",
		`args.amount == "500.01" && args.to == "dana"`:                                                     "deny",
		`actor.name == "planner-1" && "agent" in actor.roles`:                                              "deny",
		`run.id == "run_1" && run.step == "refund" && run.agent == "support"`:                              "deny",
		`run.tool_version == "2" && run.attempt == 1`:                                                      "deny",
		`tenant == "acme" && intent_id == ""`:                                                              "deny",
		`now == timestamp("2026-11-30T10:00:00Z")`:                                                         "deny",
		`local.weekday == "monday" && local.hour == 19 && local.minute == 0 && local.date == "2026-11-30"`: "deny",
		`now.getHours() == 10`:                                                                             "deny",
		`amount > 500 && amount <= 500.01 && amount < 501`:                                                 "deny",
		`currency == "EUR" && counterparty == "dana"`:                                                      "deny",
		`budgets["day"].limit == 1000 && budgets["day"].used == 600 && budgets.day.left == 400 && budgets.day.wanted == 500.01 && budgets.day.after < 0`: "deny",
		`"day" in budgets && !("night" in budgets)`: "deny",
		`amount > 500.01`:              "allow",
		`args.amount + 1 > 0`:          "deny failed",
		`args.none == 1`:               "deny failed",
		`args.?none.orValue("") == ""`: "deny",
		`args.to`:                      "deny failed",
		`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a < 11)))))`: "deny failed",
	} {
		text := head + "time_zone: Asia/Tokyo\nbudgets: [{id: day, of: spend, currency: EUR, limit: 1000, window: {calendar: day}}]\nrules:\n  - {id: rule, reason: r, then: deny}\n"
		text = strings.Replace(text, "then: deny}", "then: deny, when: '"+when+"'}", 1)
		p := load(t, text)
		r := request(t, refund(), `{"amount":"500.01","currency":"eur","to":"dana"}`)
		for _, charge := range p.Charges(r) {
			r.Use = append(r.Use, ledger.BudgetUse{Charge: charge, Used: "600"})
		}
		d := p.Decide(r)
		got := d.Effect.String()
		if d.Err != nil {
			got += " failed"
		}
		if got != want {
			t.Errorf("%s: got %s (%v), want %s", when, got, d.Err, want)
		}
		if p.ReadsBudgets() != strings.Contains(when, "budgets") {
			t.Errorf("%s: ReadsBudgets is %v", when, p.ReadsBudgets())
		}
	}
}

// TestUnknownUse: a rule that wants to know a budget and is not told refuses.
func TestUnknownUse(t *testing.T) {
	t.Parallel()
	p := load(t, head+"budgets: [{id: open, of: open, limit: 5}]\nrules: [{id: rule, reason: r, when: budgets.open.left < 1, then: deny}]\n")
	r := request(t, refund(), cheap)
	if d := p.Decide(r); inBrief(d) != "deny rule" || d.Err == nil {
		t.Errorf("without use: %+v", d)
	}
	r.Use = []ledger.BudgetUse{{Charge: p.Charges(r)[0], Used: "broken"}}
	if d := p.Decide(r); inBrief(d) != "deny rule" || d.Err == nil {
		t.Errorf("with a use that is no number: %+v", d)
	}
	r.Use[0].Used = "4"
	if d := p.Decide(r); d.Effect != policy.Allow {
		t.Errorf("with room: %+v", d)
	}
}

// TestAllowingLittle: a rule that allows what costs little does not allow what says
// no amount.
func TestAllowingLittle(t *testing.T) {
	t.Parallel()
	p := load(t, head+"default: deny\nrules: [{id: little, reason: r, when: amount < 10, then: allow}]\n")
	if got := inBrief(p.Decide(request(t, refund(), cheap))); got != "allow little" {
		t.Errorf("got %s", got)
	}
	if got := inBrief(p.Decide(request(t, actions.Spec{Type: "mail.send"}, `{}`))); got != "deny default" {
		t.Errorf("got %s", got)
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	p := load(t, head+"stages: {default: protect, action_types: {pay.*: reconcile, pay.card.*: observe, pay.card.refund: enforce}}\n")
	for actionType, want := range map[string]ledger.Stage{
		"mail.send": ledger.StageProtect, "pay.refund": ledger.StageReconcile, "payx.refund": ledger.StageProtect,
		"pay.card.charge": ledger.StageObserve, "pay.card.refund": ledger.StageEnforce, "pay.card.refund.x": ledger.StageObserve,
	} {
		if got := p.Stage(actionType); got != want {
			t.Errorf("%s: %s, want %s", actionType, got, want)
		}
	}
	if d := p.Decide(request(t, refund(), cheap)); d.Stage != ledger.StageReconcile || d.Version != p.Version() {
		t.Errorf("%+v", d)
	}
	// A refusal says it too: an observer records what would have been refused.
	r := request(t, refund(), cheap)
	r.Principal.Roles = nil
	if d := p.Decide(r); d.Stage != ledger.StageReconcile || d.Version == "" {
		t.Errorf("%+v", d)
	}
	if policy.AllowAll().For("acme").Stage("a.b") != ledger.StageReconcile {
		t.Error("without policies nothing is sent")
	}
}

// TestApprovalOfTheType holds, whatever the policy says.
func TestApprovalOfTheType(t *testing.T) {
	t.Parallel()
	spec := refund()
	spec.RequiresApproval, spec.ApprovalTTL = true, 2*time.Hour
	for rules, want := range map[string]string{
		"":                                  "require_approval action_type.requires_approval 1 2h0m0s",
		`{id: yes, reason: r, then: allow}`: "require_approval action_type.requires_approval 1 2h0m0s",
		`{id: a, reason: r, then: require_approval, approvals: 3, ttl: 4h}`: "require_approval a 3 2h0m0s",
		`{id: a, reason: r, then: require_approval, ttl: 1h}`:               "require_approval a 1 1h0m0s",
		`{id: no, reason: r, then: deny}`:                                   "deny no 0 0s",
	} {
		d := load(t, head+"rules: ["+rules+"]\n").Decide(request(t, spec, cheap))
		if got := fmt.Sprintf("%s %d %s", inBrief(d), d.Approvals, d.ApprovalTTL); got != want {
			t.Errorf("%s: got %s, want %s", rules, got, want)
		}
	}
	if d := policy.AllowAll().For("acme").Decide(request(t, spec, cheap)); d.Effect != policy.RequireApproval || d.Approvals != 1 {
		t.Errorf("without policies: %+v", d)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	p := load(t, head+`per_operation:
  - {max_attempts: 9, max_elapsed: 1h}
  - {max_attempts: 3, action_types: [pay.*]}
  - {max_elapsed: 2h, action_types: [pay.refund]}
  - {max_attempts: 1, action_types: [mail.send]}
`)
	d := p.Decide(request(t, refund(), cheap))
	if d.MaxAttempts != 3 || d.GiveUp != time.Hour {
		t.Errorf("%d attempts in %s", d.MaxAttempts, d.GiveUp)
	}
	// A yes that comes too late to send anything is not waited for.
	p = load(t, head+`per_operation: [{max_elapsed: 1h}]
rules: [{id: ask, reason: r, then: require_approval, ttl: 4h}]
`)
	if d := p.Decide(request(t, refund(), cheap)); d.ApprovalTTL != time.Hour || d.GiveUp != time.Hour {
		t.Errorf("a question lapses after %s, and the operation after %s", d.ApprovalTTL, d.GiveUp)
	}
}

// TestTypeIsNecessary: what is allowed to be requested was allowed by its type.
func TestTypeIsNecessary(t *testing.T) {
	t.Parallel()
	p := load(t, `kind: policy
tenant: acme
version: "1"
allow:
  - {id: a, actors: ["planner-*"], action_types: [pay.*]}
  - {id: b, roles: [auditor], action_types: [mail.send]}
  - {id: c, actors: [x], agents: [support], action_types: ["*"]}
`)
	allowed := 0
	for _, tenant := range []string{"", "acme", "globex"} {
		for _, actor := range []string{"", "planner-1", "x", "y"} {
			for _, roles := range [][]policy.Role{nil, {policy.Agent}, {policy.Agent, policy.Auditor}, {policy.Auditor}, {policy.Admin, policy.Reviewer}} {
				for _, actionType := range []string{"pay.refund", "mail.send", "crm.x"} {
					for _, agent := range []string{"", "support"} {
						r := request(t, actions.Spec{Type: actionType}, `{}`)
						r.Principal = policy.Principal{Tenant: tenant, Actor: actor, Roles: roles}
						r.Run.Agent = agent
						d, byType := p.Decide(r), p.DecideType(r.Principal, &r.Action.Spec)
						if d.Effect != policy.Deny {
							allowed++
							if byType.Effect != policy.Allow {
								t.Errorf("%+v may request %s, and not its type", r.Principal, actionType)
							}
						}
					}
				}
			}
		}
	}
	if allowed != 15 { // a: 4, b: 6, c: 5 more
		t.Errorf("%d of the combinations are allowed", allowed)
	}
}

// TestConcurrently: one policy decides for all requests at once.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	p := load(t, head+"rules: [{id: large, reason: r, when: amount > 100 && args.to != \"\", then: deny}]\nbudgets: [{id: day, of: spend, currency: EUR, limit: 10, window: {calendar: day}}]\n")
	small, large := request(t, refund(), cheap), request(t, refund(), `{"amount":101,"currency":"EUR","to":"x"}`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if p.Decide(small).Effect != policy.Allow || p.Decide(large).Effect != policy.Deny {
					t.Error("decided otherwise")
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkDecide(b *testing.B) {
	p := load(b, head+"rules: [{id: large, reason: r, when: amount > 100, then: deny}, {id: night, reason: r, when: local.hour < 8, then: require_approval}]\nbudgets: [{id: day, of: spend, currency: EUR, limit: 10, per: [actor], window: {calendar: day}}]\n")
	r := request(b, refund(), cheap)
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(r)
	}
}
