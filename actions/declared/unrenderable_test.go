package declared_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
)

// Arguments that fit the schema and make no request are the planner's to correct:
// it is told which part, and never what they say.
func TestUnrenderable(t *testing.T) {
	t.Parallel()
	action := func(request string) string {
		return strings.Replace(actionHead+refund, "path: /refunds\n", "path: /refunds\n"+request, 1)
	}
	for name, test := range map[string]struct{ request, args, want string }{
		"an empty segment":  {"", `{"charge":"","amount":1}`, "path wants a value that is not empty"},
		"a missing value":   {"  query: {n: \"${args.note}\"}\n", `{"charge":"hush","amount":1}`, "query needs a value that is missing"},
		"a list in a path":  {"  query: {n: \"${args.tags}\"}\n  headers: {X-Tags: \"${args.tags}\"}\n", `{"charge":"hush","amount":1,"tags":["hush"]}`, "header X-Tags needs a value"},
		"a break in a line": {"  headers: {X-Note: \"${args.note}\"}\n", `{"charge":"hush","amount":1,"note":"hush\r\nX: y"}`, "a line break"},
	} {
		text := action(test.request)
		if name == "an empty segment" {
			text = strings.Replace(text, "path: /refunds\n", "path: /refunds/${args.charge}\n", 1)
		}
		text = strings.Replace(text, "examples:\n  - arguments: {charge: ch_1, amount: 1200}", "examples:\n  - arguments: {charge: ch_1, amount: 1200, note: n, tags: [a]}", 1)
		_, err := build(t, "", providerHead, text).(actions.Renderer).Render(call(t, test.args))
		var refused *actions.ArgumentsError
		if !errors.As(err, &refused) || !strings.Contains(refused.Error(), test.want) {
			t.Errorf("%s: got %v (%v), want %q", name, refused, err, test.want)
			continue
		}
		if strings.Contains(refused.Error(), "hush") {
			t.Errorf("%s: says what the arguments hold: %v", name, refused)
		}
	}
}
