package actions

import (
	"strings"
	"testing"
)

func TestSpecCheckGoals(t *testing.T) {
	t.Parallel()
	intent := func(name string, parts ...KeyPart) Intent { return Intent{Name: name, Parts: parts} }
	order := KeyPart{"order", "arguments.order.id"}
	for _, c := range []struct {
		name   string
		change func(*Spec)
		want   string // empty: accepted
	}{
		{"everything", func(s *Spec) {
			s.Spending = Spending{Amount: "args.amount", Currency: "args.currency", Counterparty: "args.customer"}
			s.Intents = []Intent{intent("order_refund", order), intent("order", order, KeyPart{"line", "arguments.lines.0"})}
			s.SensitiveArgs, s.SensitiveReceipt = []string{"card.number", "note"}, []string{"iban"}
			s.TokenAudience = "https://ledger.internal"
		}, ""},
		{"counterparty alone", func(s *Spec) { s.Spending.Counterparty = "args.to" }, ""},
		{"amount alone", func(s *Spec) { s.Spending.Amount = "args.amount" }, "needs a currency"},
		{"currency alone", func(s *Spec) { s.Spending.Currency = "'EUR'" }, "goes with an amount"},
		{"intent name", func(s *Spec) { s.Intents = []Intent{intent("Order refund", order)} }, "intent name"},
		{"intent of callers", func(s *Spec) { s.Intents = []Intent{intent("caller", KeyPart{"id", "arguments.id"})} }, `"caller" is taken`},
		{"intent twice", func(s *Spec) { s.Intents = []Intent{intent("a", order), intent("a", order)} }, `"a" is used twice`},
		{"intent without parts", func(s *Spec) { s.Intents = []Intent{intent("a")} }, "has no parts"},
		{"too many intents", func(s *Spec) {
			for i := range maxIntents + 1 {
				s.Intents = append(s.Intents, intent("a"+string(rune('a'+i)), order))
			}
		}, "want at most 8"},
		{"negative quiet", func(s *Spec) { s.Intents = []Intent{{Name: "a", Parts: []KeyPart{order}, Quiet: -1}} }, "quiet is negative"},
		{"part name", func(s *Spec) { s.Intents = []Intent{intent("a", KeyPart{"b|c", "arguments.b"})} }, "part name"},
		{"part twice", func(s *Spec) { s.Intents = []Intent{intent("a", order, order)} }, `"order" is used twice`},
		{"part of a run", func(s *Spec) { s.Intents = []Intent{intent("a", KeyPart{"run", "run"})} }, "want arguments.<path>"},
		{"part of nothing", func(s *Spec) { s.Intents = []Intent{intent("a", KeyPart{"b", "arguments."})} }, "want arguments.<path>"},
		{"advisory part", func(s *Spec) {
			s.AdvisoryArgs, s.Intents = []string{"order"}, []Intent{intent("a", order)}
		}, "is advisory"},
		{"sensitive part", func(s *Spec) {
			s.SensitiveArgs, s.Intents = []string{"order"}, []Intent{intent("a", order)}
		}, "would show it"},
		{"sensitive part in lists", func(s *Spec) {
			s.SensitiveArgs, s.Intents = []string{"lines.sku"}, []Intent{intent("a", KeyPart{"b", "arguments.lines.0.sku"})}
		}, "would show it"},
		{"sensitive path", func(s *Spec) { s.SensitiveArgs = []string{"a..b"} }, "sensitive argument"},
		{"sensitive receipt path", func(s *Spec) { s.SensitiveReceipt = []string{"a.b"} }, "sensitive receipt field"},
		{"sensitive key part", func(s *Spec) {
			s.SensitiveArgs, s.Key = []string{"card"}, []KeyPart{{"card", "arguments.card.number"}}
		}, "the key would show it"},
		{"sensitive key part, hashed", func(s *Spec) {
			s.SensitiveArgs, s.Key, s.HashKey = []string{"card"}, []KeyPart{{"card", "arguments.card.number"}}, true
		}, ""},
		{"sensitive below a key part", func(s *Spec) {
			s.SensitiveArgs, s.Key = []string{"card.number"}, []KeyPart{{"card", "arguments.card.id"}}
		}, ""},
		{"audience", func(s *Spec) { s.TokenAudience = "the ledger" }, "token audience"},
		{"long audience", func(s *Spec) { s.TokenAudience = strings.Repeat("a", 256) }, "token audience"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := goodSpec("pay.charge")
			c.change(&spec)
			err := spec.WithDefaults().check()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error is %v, want something with %q", err, c.want)
			}
		})
	}
}

// Action types that name one intent with different parts would never meet.
func TestIntentsAreShared(t *testing.T) {
	t.Parallel()
	spec := func(actionType string, parts ...KeyPart) stub {
		s := goodSpec(actionType)
		s.Intents = []Intent{{Name: "order_refund", Parts: parts}}
		return stub{spec: s}
	}
	order, shop := KeyPart{"order", "arguments.order"}, KeyPart{"shop", "arguments.shop"}
	if _, err := NewRegistry(spec("a.refund", order, shop), spec("b.coupon", shop, KeyPart{"order", "arguments.for"})); err != nil {
		t.Error(err)
	}
	_, err := NewRegistry(spec("b.coupon", order, shop), spec("a.refund", order))
	if err == nil || !strings.Contains(err.Error(), `action type "b.coupon": intent order_refund has the parts order, shop here and order in a.refund`) {
		t.Errorf("got %v", err)
	}
}
