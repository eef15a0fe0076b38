package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
)

// TestSpending: amounts are exact or refused, with the argument that is wrong.
func TestSpending(t *testing.T) {
	t.Parallel()
	const amount, currency = " arguments.amount:AMOUNT_INVALID", " arguments.currency:CURRENCY_INVALID"
	for args, want := range map[string]string{
		`{"amount":5,"currency":"EUR"}`:                     "5 EUR",
		`{"amount":"5","currency":"eur"}`:                   "5 EUR",
		`{"amount":"0005.10","currency":"eUr"}`:             "5.10 EUR",
		`{"amount":5.10,"currency":"EUR"}`:                  "5.1 EUR",
		`{"amount":0,"currency":"EUR"}`:                     "0 EUR",
		`{"amount":"0.00","currency":"EUR"}`:                "0.00 EUR",
		`{"amount":1e3,"currency":"EUR"}`:                   "1000 EUR",
		`{"amount":1e-7,"currency":"EUR"}`:                  "0.0000001 EUR",
		`{"amount":99999999999999999999,"currency":"EUR"}`:  "99999999999999999999 EUR",
		`{"amount":"0.123456789012","currency":"EUR"}`:      "0.123456789012 EUR",
		`{"amount":"0.1234567890120000","currency":"EUR"}`:  "0.123456789012 EUR",
		`{"amount":"9007199254740993.01","currency":"EUR"}`: "9007199254740993.01 EUR",
		`{"currency":"EUR"}`:                                amount,
		`{"amount":null,"currency":"EUR"}`:                  amount,
		`{"amount":"","currency":"EUR"}`:                    amount,
		`{"amount":-1,"currency":"EUR"}`:                    amount,
		`{"amount":"-1","currency":"EUR"}`:                  amount,
		`{"amount":"-0","currency":"EUR"}`:                  amount,
		`{"amount":-0.5,"currency":"EUR"}`:                  amount,
		`{"amount":"NaN","currency":"EUR"}`:                 amount,
		`{"amount":"Infinity","currency":"EUR"}`:            amount,
		`{"amount":"1e3","currency":"EUR"}`:                 amount,
		`{"amount":"1,5","currency":"EUR"}`:                 amount,
		`{"amount":"+1","currency":"EUR"}`:                  amount,
		`{"amount":" 1","currency":"EUR"}`:                  amount,
		`{"amount":"0x10","currency":"EUR"}`:                amount,
		`{"amount":"1_000","currency":"EUR"}`:               amount,
		`{"amount":".5","currency":"EUR"}`:                  amount,
		`{"amount":"5.","currency":"EUR"}`:                  amount,
		`{"amount":"٣","currency":"EUR"}`:                   amount,
		`{"amount":true,"currency":"EUR"}`:                  amount,
		`{"amount":[1],"currency":"EUR"}`:                   amount,
		`{"amount":100000000000000000000,"currency":"EUR"}`: amount,
		`{"amount":1e300,"currency":"EUR"}`:                 amount,
		`{"amount":1e-13,"currency":"EUR"}`:                 amount,
		`{"amount":5e-324,"currency":"EUR"}`:                amount,
		`{"amount":"0.1234567890123","currency":"EUR"}`:     amount,
		`{"amount":1}`:                                                          currency,
		`{"amount":1,"currency":""}`:                                            currency,
		`{"amount":1,"currency":"EURO"}`:                                        currency,
		`{"amount":1,"currency":"E R"}`:                                         currency,
		`{"amount":1,"currency":"€€€"}`:                                         currency,
		`{"amount":1,"currency":978}`:                                           currency,
		`{"amount":1,"currency":["EUR"]}`:                                       currency,
		`{"amount":1,"currency":"uſd"}`:                                         currency, // its capital letter is an S
		`{"amount":-1,"currency":"x"}`:                                          amount + currency,
		`{"amount":1,"currency":"EUR","to":["x"]}`:                              " arguments.to:COUNTERPARTY_INVALID",
		`{"amount":1,"currency":"EUR","to":"a\u0000b"}`:                         " arguments.to:COUNTERPARTY_INVALID",
		`{"amount":1,"currency":"EUR","to":"` + strings.Repeat("x", 256) + `"}`: " arguments.to:COUNTERPARTY_INVALID",
	} {
		for name, p := range map[string]*policy.Policy{"file": load(t, head), "all": policy.AllowAll().For("acme")} {
			d := p.Decide(request(t, refund(), args))
			got := d.Amount + " " + d.Currency
			if d.Effect == policy.Deny {
				got = strings.TrimPrefix(inBrief(d), "deny arguments")
			}
			if got != want {
				t.Errorf("%s, %s: got %q, want %q", name, args, got, want)
			}
			if d.Effect == policy.Deny && !d.Holds.Empty() {
				t.Errorf("%s: a refusal holds %+v", args, d.Holds)
			}
		}
	}
}

// TestFieldOfSpending: the field is the argument where the expression reads one.
func TestFieldOfSpending(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`args.lines[0].amount`:             "arguments.lines[0].amount",
		`minor_to_decimal(args.amount, 2)`: "arguments.amount",
		`args["odd name"]`:                 `arguments["odd name"]`,
		`args.a + args.b`:                  "arguments",
		`"x"`:                              "arguments",
	} {
		spec := refund()
		spec.Spending = actions.Spending{Amount: expression, Currency: `"EUR"`}
		d := load(t, head).Decide(request(t, spec, `{}`))
		if len(d.Violations) != 1 || d.Violations[0].Field != want {
			t.Errorf("%s: %+v, want %s", expression, d.Violations, want)
		}
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]actions.Spending{
		"action type a.b: spending: amount and currency go together": {Amount: "args.a"},
		"spending: amount and currency go together":                  {Currency: "args.a"},
		"spending.amount: at character":                              {Amount: "args.", Currency: "args.c"},
		`spending.counterparty: at character 1: there is no "run"`:   {Counterparty: "run.id"},
	} {
		if _, err := policy.Compile(actions.Spec{Type: "a.b", Spending: s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

const charged = head + `time_zone: Europe/Berlin
budgets:
  - {id: day, of: spend, currency: EUR, limit: "100.50", window: {calendar: day}}
  - {id: dollars, of: spend, currency: USD, limit: 1, window: {calendar: day}}
  - {id: actor, of: spend, currency: EUR, limit: 10, per: [actor, run], action_types: [pay.*], window: {sliding: 24h}}
  - {id: calls, of: calls, limit: 5, per: [action_type], window: {calendar: week}}
  - {id: to, of: calls, limit: 2, per: [counterparty], action_types: [pay.*], window: {sliding: 30d}}
  - {id: run, of: calls, limit: 50, per: [run]}
  - {id: open, of: open, limit: 3}
  - {id: rate, of: requests, limit: 9, per: [tenant], window: {calendar: minute}}
  - {id: mails, of: calls, limit: 1, action_types: [mail.*], window: {calendar: day}}
`

func TestCharges(t *testing.T) {
	t.Parallel()
	p := load(t, charged)
	r := request(t, refund(), `{"amount":"5.00","currency":"EUR","to":"dana|x"}`)
	d := p.Decide(r)
	if d.Effect != policy.Allow || d.Amount != "5.00" || d.Counterparty != "dana|x" {
		t.Fatalf("%+v", d)
	}
	if !slices.Equal(p.Charges(r), d.Holds.Charges) {
		t.Error("what is charged is not what was asked about")
	}
	day := ledger.Window{Unit: "day", Zone: "Europe/Berlin"}
	want := []ledger.Charge{
		{Budget: "day", Subject: "tenant", Kind: ledger.ChargeUse, Amount: "5.00", Limit: "100.50", Window: day},
		{Budget: "actor", Subject: "actor:planner-1|run:run_1", Kind: ledger.ChargeUse, Amount: "5.00", Limit: "10", Window: ledger.Window{Sliding: 24 * time.Hour}},
		{Budget: "calls", Subject: "action_type:pay.refund", Kind: ledger.ChargeUse, Amount: "1", Limit: "5", Window: ledger.Window{Unit: "week", Zone: "Europe/Berlin"}},
		{Budget: "to", Subject: "counterparty:dana%7Cx", Kind: ledger.ChargeUse, Amount: "1", Limit: "2", Window: ledger.Window{Sliding: 30 * 24 * time.Hour}},
		{Budget: "run", Subject: "run:run_1", Kind: ledger.ChargeUse, Amount: "1", Limit: "50"},
		{Budget: "open", Subject: "tenant", Kind: ledger.ChargeOpen, Amount: "1", Limit: "3"},
		{Budget: "rate", Subject: "tenant", Kind: ledger.ChargeRate, Amount: "1", Limit: "9", Window: ledger.Window{Unit: "minute", Zone: "Europe/Berlin"}},
	}
	counters := map[string]bool{}
	for i, got := range d.Holds.Charges {
		counters[got.Counter] = true
		got.Counter = ""
		if i >= len(want) || got != want[i] {
			t.Errorf("charge %d: %+v", i, got)
		}
	}
	if len(d.Holds.Charges) != len(want) || len(counters) != len(want) {
		t.Errorf("%d charges on %d counters, want %d", len(d.Holds.Charges), len(counters), len(want))
	}
	if first := d.Holds.Charges[0].Counter; first != "day|currency:EUR|of:spend|window:day%20Europe/Berlin" {
		t.Errorf("counter %s", first)
	}
}

// TestHugeAmounts: a number that an expression reads out of a text is refused
// before its digits are written out.
func TestHugeAmounts(t *testing.T) {
	t.Parallel()
	spec := refund()
	spec.Spending = actions.Spending{Amount: "parse_json(args.amount)", Currency: `"EUR"`}
	p, action := load(t, head), compiled(t, spec)
	for text, want := range map[string]string{
		"12.50": "12.50", "1e2": "100", "12E-1": "1.2", "1e+19": "10000000000000000000", "1e-12": "0.000000000001",
		"1e20": "", "1e-13": "", "1e999999": "", "1e-999999": "", "1e999999999": "", "0e999999999": "", "-1e2": "", strings.Repeat("9", 500) + "e1": "",
	} {
		r := request(t, refund(), `{"amount":"`+text+`"}`)
		r.Action = action
		start := time.Now()
		if d := p.Decide(r); d.Amount != want || (d.Effect == policy.Allow) != (want != "") {
			t.Errorf("%.20s: %s, amount %q", text, inBrief(d), d.Amount)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%.20s: it took %s", text, took)
		}
	}
}

// TestRefusedByBudgets: what cannot be counted is refused.
func TestRefusedByBudgets(t *testing.T) {
	t.Parallel()
	p := load(t, charged)
	for name, c := range map[string]struct {
		change func(*policy.Request)
		args   string
		want   string
	}{
		"another currency":   {nil, `{"amount":1,"currency":"GBP","to":"x"}`, "deny currency"},
		"no counterparty":    {nil, `{"amount":1,"currency":"EUR"}`, "deny arguments arguments.to:COUNTERPARTY_INVALID"},
		"no run":             {func(r *policy.Request) { r.Run.RunID = "" }, `{"amount":1,"currency":"EUR","to":"x"}`, "deny arguments run.run_id:REQUIRED"},
		"a type without one": {func(r *policy.Request) { r.Action = compiled(t, actions.Spec{Type: "pay.out"}) }, `{}`, "deny counterparty"},
	} {
		r := request(t, refund(), c.args)
		if c.change != nil {
			c.change(r)
		}
		if got := inBrief(p.Decide(r)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	lenient := load(t, charged+"other_currencies: allow\n")
	if got := inBrief(lenient.Decide(request(t, refund(), `{"amount":1,"currency":"GBP","to":"x"}`))); got != "allow everyone" {
		t.Errorf("other currencies allowed: %s", got)
	}
	// Where no budget is of spend, no currency is asked for.
	if got := inBrief(load(t, head).Decide(request(t, refund(), `{"amount":1,"currency":"GBP"}`))); got != "allow everyone" {
		t.Errorf("without budgets: %s", got)
	}
}

// TestCounters: no two budgets, subjects, currencies, kinds or windows share one,
// whatever the names; and they are bounded.
func TestCounters(t *testing.T) {
	t.Parallel()
	odd := []string{"a", "a|b", "a%7Cb", "b:c", "a|run:b", "sha256:", "x y", "é", strings.Repeat("x", 254), strings.Repeat("x", 253) + "y"}
	seen := map[string]string{}
	euros, dollars := countedIn(t, "EUR"), countedIn(t, "USD")
	for _, window := range []string{"calendar: day", "calendar: week", "sliding: 24h", "sliding: 25h"} {
		for _, zone := range []string{"UTC", "Europe/Berlin"} {
			for _, of := range []string{"spend, currency: EUR", "spend, currency: USD", "calls", "requests"} {
				for _, per := range []string{"actor", "run", "actor, run", "counterparty, run"} {
					p := load(t, head+fmt.Sprintf("time_zone: %s\nbudgets: [{id: b, of: %s, limit: 1, per: [%s], window: {%s}}]\n", zone, of, per, window))
					for _, actor := range odd {
						for _, run := range odd {
							r := request(t, actions.Spec{Type: "pay.refund"}, fmt.Sprintf(`{"to":%q}`, actor))
							if r.Action = euros; strings.Contains(of, "USD") {
								r.Action = dollars
							}
							r.Principal.Actor, r.Run.RunID = actor, run
							charges := p.Charges(r)
							if len(charges) != 1 {
								t.Fatalf("%d charges", len(charges))
							}
							c := charges[0]
							if len(c.Counter) > 400 || len(c.Subject) > 300 || len(c.Budget) > 64 {
								t.Errorf("too long: %+v", c)
							}
							who := fmt.Sprintf("%q %q", actor, run)
							switch per {
							case "actor":
								who = fmt.Sprintf("%q", actor)
							case "run":
								who = fmt.Sprintf("%q", run)
							}
							in := zone
							if strings.HasPrefix(window, "sliding") {
								in = "" // it has none
							}
							identity := strings.Join([]string{window, in, of, per, who}, "; ")
							if other, taken := seen[c.Counter]; taken && other != identity {
								t.Fatalf("%s is the counter of %s and of %s", c.Counter, other, identity)
							}
							seen[c.Counter] = identity
						}
					}
				}
			}
		}
	}
}

// countedIn is an action type that spends in one currency.
func countedIn(t *testing.T, currency string) *policy.Action {
	t.Helper()
	return compiled(t, actions.Spec{Type: "pay.refund", Spending: actions.Spending{Amount: "1", Currency: `"` + currency + `"`, Counterparty: "args.to"}})
}

// TestFences: intents of the action type, the policy and the caller.
func TestFences(t *testing.T) {
	t.Parallel()
	p := load(t, head+`intents:
  - {name: order_refund, quiet: 1h, actions: {pay.refund: {order: args.order.id, kind: '"money"'}, pay.coupon: {order: args.ref, kind: '"money"'}}}
  - {name: bill, actions: {pay.refund: {bill: args.bill}}}
`)
	spec := refund()
	spec.Intents = []actions.Intent{
		{Name: "bill", Quiet: 2 * time.Hour, Parts: []actions.KeyPart{{Name: "bill", From: "arguments.bill"}}},
		{Name: "own", Quiet: 3 * time.Hour, Parts: []actions.KeyPart{{Name: "order", From: "arguments.order.id"}}},
	}
	r := request(t, spec, `{"amount":1,"currency":"EUR","order":{"id":42},"bill":"b|1"}`)
	r.IntentID = "refund dana"
	d := p.Decide(r)
	want := []ledger.Fence{
		{Intent: "bill|bill:b%7C1", Quiet: 2 * time.Hour}, // the type's and the policy's are one
		{Intent: "own|order:42", Quiet: 3 * time.Hour},
		{Intent: "order_refund|kind:money|order:42", Quiet: time.Hour},
		{Intent: "caller|id:refund%20dana", Quiet: 24 * time.Hour},
	}
	if d.Effect != policy.Allow || !slices.Equal(d.Holds.Fences, want) {
		t.Errorf("%+v", d)
	}

	loose := load(t, head+"intent_id_quiet: 0s\n").Decide(r)
	if n := len(loose.Holds.Fences); n == 0 || loose.Holds.Fences[n-1] != (ledger.Fence{Intent: "caller|id:refund%20dana"}) {
		t.Errorf("intent_id_quiet: 0s: %+v", loose.Holds.Fences)
	}

	// Another action type meets the first, with its own argument.
	coupon := request(t, actions.Spec{Type: "pay.coupon"}, `{"ref":"42"}`)
	if got := p.Decide(coupon).Holds.Fences; len(got) != 1 || got[0] != want[2] {
		t.Errorf("the coupon holds %+v", got)
	}

	// What tells goals apart must be there.
	r = request(t, spec, `{"amount":1,"currency":"EUR","order":{"id":""}}`)
	d = p.Decide(r)
	got := inBrief(d)
	const m = ":INTENT_PART_MISSING"
	if got != "deny arguments arguments.bill"+m+" arguments.order.id"+m {
		t.Errorf("got %s", got)
	}
	for _, args := range []string{`{}`, `{"ref":null}`, `{"ref":""}`, `{"ref":[]}`, `{"ref":{}}`} {
		if got := inBrief(p.Decide(request(t, actions.Spec{Type: "pay.coupon"}, args))); got != "deny arguments arguments.ref"+m {
			t.Errorf("%s: got %s", args, got)
		}
	}

	// Without policies the action type's and the caller's hold.
	r = request(t, spec, `{"amount":1,"currency":"EUR","order":{"id":42},"bill":"x"}`)
	r.IntentID = "i"
	if d := policy.AllowAll().For("acme").Decide(r); len(d.Holds.Fences) != 3 {
		t.Errorf("without policies: %+v", d.Holds.Fences)
	}
}
