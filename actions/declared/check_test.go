package declared_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
)

// Each fault names its file, line and field. The dry run needs neither secrets nor
// a network.
//
// PROVIDERS requirement 30
func TestCheck(t *testing.T) {
	t.Parallel()
	const withRules = "errors: {code: body.code}\noutcomes:\n"
	for name, test := range map[string]struct{ provider, action, want string }{
		"all is well": {provider: rulesOfAcme + hooks, action: refund + listOf},
		"expression of a rule": {provider: "outcomes:\n  - {if: bdy.x, is: ambiguous}\n", action: refund,
			want: `provider.yaml:8:6: outcomes[0].if: at character 1: there is no "bdy" here`},
		"expression of the origin": {provider: "origin: {if: item.x}\n", action: refund, want: "provider.yaml:7:10: origin.if: "},
		"a rule's answer is another's": {provider: withRules + `  - {status: [409], is: in_progress}
  - {status: [409], code: [x], is: in_progress, simulate: {status: 409, json: {code: x}}}
`, action: refund, want: "outcomes[1].simulate: this answer fits outcomes[0] first"},
		"a rule's answer does not fit": {provider: withRules + `  - {status: [409], code: [x], is: in_progress, simulate: {status: 409, json: {code: y}}}
`, action: refund, want: "outcomes[0].simulate: this answer does not fit the rule"},
		"a rule's answer with the code": {provider: withRules + `  - {status: [409], code: [x, y], is: in_progress, simulate: {status: 409, json: {code: "${code}"}}}
`, action: refund},
		"an event":          {provider: strings.Replace(hooks, "event.object.why", "evnt.why", 1), action: refund, want: "webhooks.events[1].code: "},
		"request body":      {action: strings.Replace(refund, "${args.charge}", "${arg.charge}", 1), want: `action.yaml:24:10: request.json.charge: ${arg.charge}: at character 1: there is no "arg" here`},
		"path with a query": {action: strings.Replace(refund, "/refunds", "/refunds?x=1", 1), want: "request.path: parameters belong into query"},
		"receipt":           {action: strings.Replace(refund, "amount: body.amount", "amount: body.", 1), want: "action.yaml:27:25: receipt.fields.amount: "},
		"check":             {action: refund + "checks: [{if: args.amount >, message: x}]\n", want: "checks[0].if: "},
		"look-up":           {action: refund + strings.Replace(listOf, "item.status", "itm.status", 1), want: "lookups[0].pending: "},
		"link of a POST": {action: refund + strings.NewReplacer("method: GET", "method: POST", `"body.?next"`, "link").Replace(listOf),
			want: "lookups[0].pages.next: a link is followed by GET"},
		"example that cannot be rendered": {action: strings.Replace(refund, "${args.charge}", "${args.note}", 1), want: "examples[0]: cannot be rendered: body: charge: "},
		"example that a check refuses":    {action: refund + "checks: [{if: args.amount > 5000, field: amount, message: Too small.}]\n", want: "examples[0].arguments: "},
		"example of another host":         {action: strings.Replace(refund, "/refunds", "https://evil.test/x", 1), want: "examples[0]: https://evil.test/x is on none of the provider's origins"},
		"key that goes nowhere": {provider: "keys: {place: template, window: 1h}\n", action: strings.Replace(refund, "path: /refunds", `path: /refunds`+"\n  headers: {X: '${key == \"\" ? \"a\" : \"b\"}'}", 1),
			want: "request: our key is nowhere in it"},
		"key inside of a text": {provider: "keys: {place: field, name: charge.key, window: 1h}\n", action: refund, want: "examples[0]: cannot be rendered: the key's place charge.key is inside of something"},
		"key that is there":    {provider: "keys: {place: field, name: charge, window: 1h}\n", action: refund, want: "examples[0]: cannot be rendered: the body has charge already"},
		"alphabet":             {provider: "keys: {place: header, name: K, window: 1h, alphabet: '[0-9a-v]'}\n", action: refund},
		"alphabet that no sample shows": {provider: "keys: {place: header, name: K, window: 1h, alphabet: '[0-9a-np-v]'}\n", action: refund,
			want: "keys.alphabet: our keys are made of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectFaults(t, test.provider, actionHead+test.action, test.want)
		})
	}
}

// Examples say what is sent, and what its answers mean.
func TestCheckExamples(t *testing.T) {
	t.Parallel()
	action := func(more string) string {
		return strings.Replace(actionHead, "  - arguments: {charge: ch_1, amount: 1200}\n", `
  - arguments: {charge: ch_1, amount: 1200}
    request:
      method: POST
      url: https://api.acme.test/v2/refunds
      body: '{"amount":1200,"charge":"ch_1","metadata":{"operation_id":"${operation.id}"}}'
    answers:
      - {status: 200, json: {id: r1, amount: 1}, is: applied, reference: r1}
      - {status: 404, json: {}, is: rejected}
      - {status: 404, text: nothing, is: ambiguous}
`+more, 1) + refund
	}
	for more, want := range map[string]string{
		"": "",
		"      - {status: 500, json: {}, is: rejected}\n":                                                                        "action.yaml:29:33: examples[0].answers[3].is: this answer is ambiguous: The provider's answer (HTTP 500)",
		"      - {status: 200, json: {id: r2, amount: 1}, is: applied, reference: r1}\n":                                         `examples[0].answers[3].reference: the reference in this answer is "r2"`,
		"  - {arguments: {charge: a, amount: 1}, request: {method: PUT, url: x}}\n":                                              "examples[1].request.method: what is sent is POST",
		"  - {arguments: {charge: a, amount: 1}, request: {method: POST, url: \"https://api.acme.test/v2/refunds\", body: x}}\n": `examples[1].request.body: what is sent is {"amount":1,`,
	} {
		expectFaults(t, "", action(more), want)
	}
}

// expectFaults checks two files: one fault begins with, or holds, what is wanted;
// nothing wanted is no fault.
func expectFaults(t *testing.T, provider, action, want string) {
	t.Helper()
	set, err := definition.LoadFS(fstest.MapFS{
		"provider.yaml": {Data: []byte(providerHead + provider)}, "action.yaml": {Data: []byte(action)},
	}, "provider.yaml", "action.yaml")
	if err != nil {
		t.Fatalf("%v", err)
	}
	faults, err := declared.Check(set)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range faults {
		all = append(all, f.String())
		if f.Place.Line == 0 {
			t.Errorf("no line: %+v", f)
		}
	}
	text := strings.Join(all, "\n")
	if (want == "") != (text == "") || !strings.Contains(text, want) {
		t.Errorf("faults:\n%s\nwant %q", text, want)
	}
}
