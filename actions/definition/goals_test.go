package definition

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// The files of these tests; a test adds the parts that it is about.
const (
	payer = `
kind: provider
name: acme
version: "1"
http:
  base_url: https://api.acme.test
`
	payout = `
kind: action
type: acme.payout.create
version: "1"
provider: acme
description: Pay.
doubt: person
advisory_args: [note]
arguments:
  type: object
  properties:
    order: {type: object, properties: {id: {type: string}}}
    amount: {type: integer}
    note: {type: string}
request: {method: POST, path: /payouts}
receipt: {reference: body.id, fields: {iban: body.iban}}
examples: [{arguments: {amount: 1}}]
`
)

func loadPayout(provider, action string) (*Set, error) {
	return LoadFS(fstest.MapFS{"provider.yaml": {Data: []byte(payer + provider)}, "action.yaml": {Data: []byte(payout + action)}}, "provider.yaml", "action.yaml")
}

func TestGoalsAreRead(t *testing.T) {
	t.Parallel()
	set, err := loadPayout(`
operation_token: {audience: https://ledger.internal}
breaker: {failures: 3, open_for: 1m}
retry_budget: {percent: 5, floor: 2}
`, `
spending: {amount: args.amount, currency: '"EUR"', counterparty: args.order.id}
intents:
  - name: order_payout
    parts: [{name: order, from: arguments.order.id}]
    quiet: 7d
sensitive: {arguments: [note], receipt: [iban]}
`)
	if err != nil {
		t.Fatal(err)
	}
	p, a := set.Providers["acme"], set.Actions["acme.payout.create"]
	if p.OperationToken.Audience != "https://ledger.internal" || *p.Breaker != (Breaker{3, Duration(time.Minute)}) || *p.RetryBudget != (RetryBudget{5, 2}) {
		t.Errorf("provider: %+v %+v %+v", p.OperationToken, p.Breaker, p.RetryBudget)
	}
	if i := a.Intents[0]; i.Name != "order_payout" || i.Quiet.Std() != 7*24*time.Hour || i.Parts[0] != (Part{"order", "arguments.order.id"}) {
		t.Errorf("intent: %+v", i)
	}
	if a.Spending.Amount != "args.amount" || a.Sensitive.Arguments[0] != "note" || a.Sensitive.Receipt[0] != "iban" {
		t.Errorf("spending %+v, sensitive %+v", a.Spending, a.Sensitive)
	}
}

// Each fault is refused with its file, line and field.
func TestGoalsThatAreRefused(t *testing.T) {
	t.Parallel()
	intent := func(parts string) string { return "intents:\n  - name: order\n    parts: [" + parts + "]\n" }
	for _, c := range []struct{ provider, action, want string }{
		{action: "spending: {}\n", want: "action.yaml:18:1: spending: is empty"},
		{action: "spending: {amount: args.amount}\n", want: "action.yaml:18:1: spending: an amount wants a currency"},
		{action: "spending: {currency: '\"EUR\"'}\n", want: "action.yaml:18:12: spending.currency: goes with an amount"},
		{action: "spending: {amount: 100, currency: EUR}\n", want: "spending.amount: is number, want string (put it in quotes)"},
		{action: "spending: {sum: a}\n", want: "spending.sum: there is no such field"},
		{action: intent("{name: order, from: run}"), want: "action.yaml:20:27: intents[0].parts[0].from: want arguments.<path>"},
		{action: intent("{name: order, from: arguments..}"), want: "intents[0].parts[0].from: want arguments.<path>"},
		{action: intent("{name: order, from: arguments.invoice}"), want: `intents[0].parts[0].from: the arguments have no property "invoice"`},
		{action: intent("{name: order, from: arguments.note}"), want: `intents[0].parts[0].from: "note" is advisory`},
		{action: intent("{name: a, from: arguments.amount}, {name: a, from: arguments.amount}"), want: `intents[0].parts[1].name: "a" is used twice`},
		{action: intent(""), want: "intents[0].parts: "},
		{action: intent("{name: a, from: arguments.amount}") + "  - name: order\n    parts: [{name: a, from: arguments.amount}]\n", want: `intents[1].name: "order" is used twice`},
		{action: "intents: [{name: Order, parts: [{name: a, from: arguments.amount}]}]\n", want: "intents[0].name: "},
		{action: "intents: [{name: order, quiet: 7, parts: [{name: a, from: arguments.amount}]}]\n", want: "intents[0].quiet: "},
		{action: "sensitive: {arguments: [memo]}\n", want: `action.yaml:18:25: sensitive.arguments[0]: the arguments have no property "memo"`},
		{action: "sensitive: {arguments: [note.]}\n", want: "sensitive.arguments[0]: want names"},
		{action: "sensitive: {receipt: [id]}\n", want: `sensitive.receipt[0]: the receipt has no field "id"`},
		{provider: "breaker: {failures: 0}\n", want: "provider.yaml:7:11: breaker.failures: "},
		{provider: "breaker: {open_for: 2h}\n", want: "breaker.open_for: is at most 1h"},
		{provider: "retry_budget: {percent: 200}\n", want: "retry_budget.percent: "},
		{provider: "operation_token: {audience: ''}\n", want: "operation_token.audience: "},
		{provider: "operation_token: {}\n", want: "operation_token: missing: audience"},
		{provider: "  headers: {onceward-operation-token: x}\n", want: "is where the operation token goes"},
		{provider: "  auth: {header: {name: Onceward-Operation-Token, secret: {env: A}}}\n", want: "http.auth.header.name: is where the operation token goes"},
		{provider: "  auth: {hmac: {secret: {env: A}, content: x, headers: {Onceward-Operation-Token: x}}}\n", want: "is where the operation token goes"},
		{provider: "keys: {place: header, name: Onceward-Operation-Token, window: 1h}\n", want: "is where the operation token goes"},
	} {
		_, err := loadPayout(c.provider, c.action)
		var faults *FaultsError
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s got %v\nwant %q", c.provider, c.action, err, c.want)
		}
	}
}

func TestOperationTokenOfOtherAdapters(t *testing.T) {
	t.Parallel()
	const postgres = "kind: provider\nname: db\nversion: \"1\"\nadapter: sql\nsql: {ledger: true}\noperation_token: {audience: a}\nbreaker: {failures: 2}\n"
	_, err := LoadFS(fstest.MapFS{"db.yaml": {Data: []byte(postgres)}}, "db.yaml")
	if err == nil || err.Error() != "db.yaml:6:1: operation_token: has a meaning for the adapters http and grpc alone" {
		t.Errorf("got %v", err)
	}
}

// Two actions that name one intent with different parts would never meet.
func TestIntentsAreSharedUnderTheSameParts(t *testing.T) {
	t.Parallel()
	file := func(action, parts string) *fstest.MapFile {
		text := strings.Replace(payout, "acme.payout.create", action, 1)
		return &fstest.MapFile{Data: []byte(text + "intents: [{name: order, parts: [" + parts + "]}]\n")}
	}
	const id, amount = "{name: id, from: arguments.order.id}", "{name: amount, from: arguments.amount}"
	for _, c := range []struct{ one, other, want string }{
		{id, "{name: id, from: arguments.order}", ""},
		{id + ", " + amount, amount + ", " + id, ""},
		{id, amount, "b.yaml:18:25: intents[0].parts: order has the parts amount here and id in acme.a: two actions share"},
		{id, id + ", " + amount, "order has the parts amount, id here and id in acme.a"},
	} {
		_, err := LoadFS(fstest.MapFS{
			"provider.yaml": {Data: []byte(payer)}, "a.yaml": file("acme.a", c.one), "b.yaml": file("acme.b", c.other),
		}, "provider.yaml", "a.yaml", "b.yaml")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s and %s: %v, want %q", c.one, c.other, err, c.want)
		}
	}
}
