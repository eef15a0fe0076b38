package actions_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, paths, want string
	}{
		{"nothing named", `{"a": 1}`, "", `{"a": 1}`},
		{"no text", ``, "a", ``},
		{"member", `{"a":"x","b":"x"}`, "a", `{"a":"[redacted]","b":"x"}`},
		{"not there", `{"b":1}`, "a", `{"b":1}`},
		{"object whole", `{"a":{"b":[1,{"c":2}]},"d":0}`, "a", `{"a":"[redacted]","d":0}`},
		{"null too", `{"a":null}`, "a", `{"a":"[redacted]"}`},
		{"nested", `{"a":{"b":"x","c":"x"},"b":"x"}`, "a.b", `{"a":{"b":"[redacted]","c":"x"},"b":"x"}`},
		{"beyond a scalar", `{"a":"x"}`, "a.b", `{"a":"x"}`},
		{"each item", `{"a":[{"b":1,"c":2},{"b":3}]}`, "a.b", `{"a":[{"b":"[redacted]","c":2},{"b":"[redacted]"}]}`},
		{"one item", `{"a":[{"b":1},{"b":3}]}`, "a.1.b", `{"a":[{"b":1},{"b":"[redacted]"}]}`},
		{"item of lists", `{"a":[[{"b":1}]]}`, "a.b", `{"a":[[{"b":"[redacted]"}]]}`},
		{"list whole", `{"a":[1,2]}`, "a", `{"a":"[redacted]"}`},
		{"several", `{"a":1,"b":{"c":2}}`, "a b.c", `{"a":"[redacted]","b":{"c":"[redacted]"}}`},
		{"one in another", `{"b":{"c":2}}`, "b.c b", `{"b":"[redacted]"}`},
		{"escaped name", `{"\u0061":1}`, "a", `{"\u0061":"[redacted]"}`},
		{"twice", `{"a":1,"a":2}`, "a", `{"a":"[redacted]","a":"[redacted]"}`},
		{"digits", `{"n": 123456789012345678901234567890.10, "a":1}`, "a", `{"n":123456789012345678901234567890.10,"a":"[redacted]"}`},
		{"top list", `[{"a":1}]`, "a", `[{"a":"[redacted]"}]`},
		{"no JSON", `a=secret`, "a", `"[redacted]"`},
		{"cut short", `{"b":"secret`, "a", `"[redacted]"`},
		{"more than one", `{"a":1} {"a":2}`, "a", `"[redacted]"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := string(actions.Redact([]byte(c.in), strings.Fields(c.paths))); got != c.want {
				t.Errorf("Redact(%s, %s)\n got %s\nwant %s", c.in, c.paths, got, c.want)
			}
		})
	}
}

func TestRedactDeep(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + `{"a":"secret"}` + strings.Repeat("]", 9000)
	if got := string(actions.Redact([]byte(deep), []string{"a"})); strings.Contains(got, "secret") {
		t.Error("a value in nested lists is shown")
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	args, err := actions.ParseArguments([]byte(`{"to":"ada@example.com","card":{"n":40000566,"name":"Ada"},"lines":[{"text":"secret one"},{"text":"secret one and more"}],"order":"or_1001","note":"say \"hi\" & <go>"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, paths, want string }{
		{"", "to", ""},
		{"ada@example.com is unknown", "", "ada@example.com is unknown"},
		{"ada@example.com is unknown: ada@example.com", "to", "[redacted] is unknown: [redacted]"},
		{"order or_1001 of ada@example.com", "to", "order or_1001 of [redacted]"},
		{"card 40000566 of Ada", "card", "card [redacted] of Ada"},
		{"card 40000566", "card.n", "card [redacted]"},
		{"card 40000566", "card.n.deeper", "card 40000566"},
		{"no secret one and more", "lines.text", "no [redacted]"},
		{"no secret one and more", "lines.0.text", "no [redacted] and more"},
		{"nothing", "nowhere", "nothing"},
		{`bad request: {"note":"say \"hi\" & <go>"}`, "note", `bad request: {"note":"[redacted]"}`},
		{`bad request: {"note":"say \"hi\" \u0026 \u003cgo\u003e"}`, "note", `bad request: {"note":"[redacted]"}`},
		{"GET /find?to=ada%40example.com&note=say+%22hi%22+%26+%3Cgo%3E", "to note", "GET /find?to=[redacted]&note=[redacted]"},
		{"GET /say%20%22hi%22%20&%20%3Cgo%3E", "note", "GET /[redacted]"},
	} {
		if got := args.Scrub(c.text, strings.Fields(c.paths)); got != c.want {
			t.Errorf("Scrub(%q, %s) = %q, want %q", c.text, c.paths, got, c.want)
		}
	}
}
