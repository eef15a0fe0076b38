package declared_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

func TestGoalsOfASpec(t *testing.T) {
	t.Parallel()
	const provider = providerHead + `
operation_token: {audience: https://ledger.internal}
breaker: {failures: 3, open_for: 1m}
retry_budget: {percent: 5, floor: 2}
`
	const action = actionHead + refund + `
spending: {amount: "minor_to_decimal(args.amount, 2)", currency: '"EUR"', counterparty: args.charge}
intents: [{name: charge_refund, parts: [{name: charge, from: arguments.charge}], quiet: 1h}]
sensitive: {arguments: [note], receipt: [amount]}
`
	spec := build(t, "http://127.0.0.1:1", provider, action).Spec()
	if want := (actions.Spending{Amount: "minor_to_decimal(args.amount, 2)", Currency: `"EUR"`, Counterparty: "args.charge"}); spec.Spending != want {
		t.Errorf("spending: %+v", spec.Spending)
	}
	if want := []actions.Intent{{Name: "charge_refund", Parts: []actions.KeyPart{{Name: "charge", From: "arguments.charge"}}, Quiet: time.Hour}}; !reflect.DeepEqual(spec.Intents, want) {
		t.Errorf("intents: %+v", spec.Intents)
	}
	if !reflect.DeepEqual(spec.SensitiveArgs, []string{"note"}) || !reflect.DeepEqual(spec.SensitiveReceipt, []string{"amount"}) || spec.TokenAudience != "https://ledger.internal" {
		t.Errorf("marks and audience: %+v", spec)
	}
	if want := (actions.Protection{Failures: 3, OpenFor: time.Minute, RetryShare: 5, RetryFloor: 2}); spec.Contract.Protection != want {
		t.Errorf("protection: %+v", spec.Contract.Protection)
	}
}

// What an action costs and is for is tried with its examples.
func TestCheckGoals(t *testing.T) {
	t.Parallel()
	spends := func(amount, currency string) string {
		return "spending:\n  amount: '" + amount + "'\n  currency: '" + currency + "'\n"
	}
	for name, test := range map[string]struct{ action, want string }{
		"whole":               {spends("args.amount", `"EUR"`), ""},
		"decimal":             {spends("minor_to_decimal(args.amount, 2)", `"eur".upperAscii()`), ""},
		"nothing":             {spends("0", `"EUR"`), ""},
		"no expression":       {spends("args.amount +", `"EUR"`), "action.yaml:29:3: spending.amount: at character "},
		"another variable":    {spends("operation.id", `"EUR"`), `spending.amount: at character 1: there is no "operation" here; there are args`},
		"fails":               {spends("args.price", `"EUR"`), "action.yaml:29:3: spending.amount: fails for examples[0]: "},
		"negative":            {spends("0 - args.amount", `"EUR"`), `spending.amount: is "-1200" for examples[0]: want an amount that is not negative`},
		"negative decimal":    {spends("minor_to_decimal(0 - args.amount, 2)", `"EUR"`), `spending.amount: is "-12.00" for examples[0]`},
		"rounded":             {spends("double(args.amount) / 3.0", `"EUR"`), "spending.amount: fails for examples[0]"},
		"a word":              {spends("args.charge", `"EUR"`), `spending.amount: is "ch_1" for examples[0]`},
		"not there":           {spends("args.?price", `"EUR"`), "spending.amount: is nothing for examples[0]"},
		"too many digits":     {spends(`"1.0000000001"`, `"EUR"`), `spending.amount: is "1.0000000001"`},
		"small letters":       {spends("args.amount", `"eur"`), `action.yaml:30:3: spending.currency: is "eur" for examples[0]: want three capital letters`},
		"no currency":         {spends("args.amount", "args.?currency"), "spending.currency: is nothing for examples[0]"},
		"counterparty":        {"spending: {counterparty: args.customer}\n", "spending.counterparty: fails for examples[0]"},
		"no counterparty":     {"spending: {counterparty: args.?note}\n", ""},
		"intent":              {"intents: [{name: a, parts: [{name: charge, from: arguments.charge}]}]\n", ""},
		"intent not resolved": {"intents: [{name: a, parts: [{name: note, from: arguments.note}]}]\n", "action.yaml:28:12: intents[0]: is not resolved by examples[0]"},
		"intent of a list":    {"intents: [{name: a, parts: [{name: note, from: arguments.tags}]}]\n", "intents[0]: is not resolved by examples[0]"},
		"sensitive intent": {"intents: [{name: a, parts: [{name: charge, from: arguments.charge}]}]\nsensitive: {arguments: [charge]}\n",
			"argument charge is sensitive, and the text of the intent would show it"},
		"sensitive key":         {"key: {parts: [{name: charge, from: arguments.charge}]}\nsensitive: {arguments: [charge]}\n", "argument charge is sensitive, and the key would show it"},
		"sensitive key, hashed": {"key: {hashed: true, parts: [{name: charge, from: arguments.charge}]}\nsensitive: {arguments: [charge]}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectFaults(t, "", actionHead+refund+test.action, test.want)
		})
	}
}

const aToken = "eyJhbGciOiJFZERTQSJ9.eyJvcCI6IjEifQ.c2lnbmF0dXJl"

// The operation token of a write reaches a service that asks for one; it is no
// part of what is frozen, and does not come back.
func TestOperationToken(t *testing.T) {
	t.Parallel()
	const asks = "operation_token: {audience: https://ledger.internal}\n"
	for name, test := range map[string]struct{ provider, want string }{
		"asked for":            {providerHead + asks, aToken},
		"with our credentials": {withAuth("bearer: {env: A}") + asks, aToken},
		"signed requests":      {withAuth(`hmac: {secret: {env: A}, content: "${body}", headers: {X-Signature: "${signature}"}}`) + asks, aToken},
		"not asked for":        {providerHead, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{200, 400, 500} {
				p := repeats(t, status)
				action := strings.Replace(actionHead+refund, "amount: body.amount", "amount: body.amount, echo: body.echo, head: 'header[\"x-echo\"]'", 1)
				a := build(t, p.URL, test.provider+echoing, action)
				c := call(t, theArgs)
				without := render(t, a, c)
				c.OperationToken = aToken
				if frozen := render(t, a, c); frozen != without {
					t.Errorf("the token is frozen: %s", frozen)
				}
				o := a.Execute(t.Context(), c)
				if got := p.one(t).header.Get(httpaction.TokenHeader); got != test.want {
					t.Errorf("the provider got %q, want %q", got, test.want)
				}
				for _, text := range []string{o.Failure.Message, o.Failure.Evidence, string(o.Receipt.JSON)} {
					if strings.Contains(text, aToken) {
						t.Errorf("the token came back: %s", text)
					}
				}
			}
		})
	}
}

// A look-up writes nothing and carries no token, and an attempt without one is
// made as before.
func TestOperationTokenOfWritesAlone(t *testing.T) {
	t.Parallel()
	p := says(t, http.StatusOK, nil, `{"id":"r1","amount":1,"items":[]}`)
	a := build(t, p.URL, providerHead+"operation_token: {audience: a}\n", actionHead+refund+listOf)
	c := call(t, theArgs)
	a.Execute(t.Context(), c)
	c.OperationToken = aToken
	a.(actions.Looker).Lookup(t.Context(), actions.Query{Call: c})
	for _, r := range p.requests() {
		if got := r.header.Get(httpaction.TokenHeader); got != "" {
			t.Errorf("%s %s carries %q", r.method, r.target, got)
		}
	}
	if n := len(p.requests()); n != 2 {
		t.Errorf("%d requests, want a write and a look-up", n)
	}
}
