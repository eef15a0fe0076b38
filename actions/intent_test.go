package actions_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
)

func TestComposeIntent(t *testing.T) {
	t.Parallel()
	part := func(name, value string) actions.IntentPart { return actions.IntentPart{Name: name, Value: value} }
	for _, c := range []struct {
		name  string
		parts []actions.IntentPart
		want  string
	}{
		{"order_refund", []actions.IntentPart{part("order", "42")}, "order_refund|order:42"},
		{"a", nil, "a"},
		{"a", []actions.IntentPart{part("z", "1"), part("b", "2")}, "a|b:2|z:1"},
		{"a", []actions.IntentPart{part("b", "x|c:y%")}, "a|b:x%7Cc%3Ay%25"},
		{"a", []actions.IntentPart{part("b", "é\n")}, "a|b:%C3%A9%0A"},
		{"a|b:1", nil, "a%7Cb%3A1"},
	} {
		if got := actions.ComposeIntent(c.name, c.parts); got != c.want {
			t.Errorf("ComposeIntent(%q, %v) = %q, want %q", c.name, c.parts, got, c.want)
		}
	}
}

func TestComposeIntentIsBounded(t *testing.T) {
	t.Parallel()
	long := func(end string) []actions.IntentPart {
		return []actions.IntentPart{{Name: "b", Value: strings.Repeat("x", actions.MaxIntentLength) + end}}
	}
	one, two := actions.ComposeIntent("a", long("1")), actions.ComposeIntent("a", long("2"))
	if one == two || !strings.HasPrefix(one, "a|sha256:") || len(one) != len("a|sha256:")+64 {
		t.Errorf("long intents: %q and %q", one, two)
	}
	fits := []actions.IntentPart{{Name: "b", Value: strings.Repeat("x", actions.MaxIntentLength-len("a|b:"))}}
	if got := actions.ComposeIntent("a", fits); len(got) != actions.MaxIntentLength {
		t.Errorf("an intent of the longest length became %q", got)
	}
	posing := actions.ComposeIntent("a", []actions.IntentPart{{Name: "sha256", Value: strings.TrimPrefix(one, "a|sha256:")}})
	if posing == one {
		t.Error("an intent with a part sha256 poses as a hashed one")
	}
	if got := actions.ComposeIntent(strings.Repeat("n", 1000), nil); len(got) > actions.MaxIntentLength {
		t.Errorf("a long name makes %d bytes", len(got))
	}
}

func TestResolveIntent(t *testing.T) {
	t.Parallel()
	intent := actions.Intent{Name: "order_refund", Parts: []actions.KeyPart{
		{Name: "order", From: "arguments.order.id"}, {Name: "line", From: "arguments.lines.0"},
	}}
	args, err := actions.ParseArguments([]byte(`{"order":{"id":42},"lines":["a"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := intent.Resolve(args); err != nil || got != "order_refund|line:a|order:42" {
		t.Errorf("Resolve = %q, %v", got, err)
	}

	args, err = actions.ParseArguments([]byte(`{"order":{"id":""},"lines":[["secret"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = intent.Resolve(args)
	var refused *actions.ArgumentsError
	if !errors.As(err, &refused) || len(refused.Violations) != 2 {
		t.Fatalf("Resolve without values: %v", err)
	}
	for i, field := range []string{"order.id", "lines[0]"} {
		v := refused.Violations[i]
		if v.Field != field || v.Reason != actions.ReasonIntentPartMissing || strings.Contains(v.Message, "secret") {
			t.Errorf("violation %d: %+v", i, v)
		}
	}
}
