package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/policy"
)

// loadTime is how long one file may take, however it is written: the file of one
// tenant must not hold up the others. It is some twenty times what the worst that is
// known takes, so that a loaded machine does not break the test.
const loadTime = 20 * time.Second

// loadHostile loads one file. It must end in time, and each fault must have a place
// in the file; a policy that loads must decide, and say by what it denies.
func loadHostile(t *testing.T, text string) error {
	t.Helper()
	start := time.Now()
	policies, err := policy.Load(map[string][]byte{"f.yaml": []byte(text)})
	if took := time.Since(start); took > loadTime {
		t.Errorf("%.60q: it took %s", text, took)
	}
	if err != nil {
		var faults *strictyaml.FaultsError
		if !errors.As(err, &faults) || len(faults.Faults) == 0 {
			t.Fatalf("%.60q: no faults in %v", text, err)
		}
		for _, f := range faults.Faults {
			if f.Place.File != "f.yaml" || f.Problem == "" || f.Field != "" && f.Place.Line < 1 {
				t.Errorf("%.60q: no place: %s", text, f)
			}
		}
		return err
	}
	for _, tenant := range policies.Tenants() {
		r := request(t, refund(), `{"amount": 12.5, "currency": "EUR", "to": "x"}`)
		r.Principal.Tenant = tenant
		if d := policies.For(tenant).Decide(r); d.Rule == "" || d.Version == "" || d.Effect == policy.Deny && len(d.Holds.Charges) > 0 {
			t.Errorf("%.60q: decides %+v", text, d)
		}
	}
	return nil
}

// TestHostileFiles: files that fit into the limits and are written to be slow are
// read in time, and refused where they are wrong.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	rules := func(when string) string {
		return head + "rules:\n" + many(6, "  - {id: r%d, reason: r, then: deny, when: '"+strings.ReplaceAll(when, "%", "%%")+"'}\n")
	}
	for _, test := range []struct{ text, want string }{
		{"", "f.yaml:1:1: is empty"},
		{"kind: policy_test\n", "there are no policies"},
		{"kind: polity\n", "f.yaml:1:1: kind: want policy"},
		{head + many(7000, "x%d: 1\n"), "f.yaml:1:1: 6900 more things are wrong\nf.yaml:5:1: x0: there is no such field\nf.yaml:6:1: x1: "},
		{head + "stages: {action_types: {" + many(7000, "x%d: on,") + "}}\n", "f.yaml:5:10: stages.action_types: has 7000 entries, want at most 500"},
		{head + "intents: [{name: a, actions: {" + many(3500, "a.x%d: {a: args.a},") + "}}]\n", "f.yaml:5:21: intents[0].actions: has 3500 entries, want at most 100"},
		{head + "intents: [{name: a, actions: {a.b: {" + many(7000, "x%d: args.a,") + "}}}]\n", "has 7000 parts, want at most 16"},
		{head + "x: [" + many(16_000, "%d,") + "]\n", "words and signs"},
		{rules(strings.Repeat("amount > 1 || ", 290) + "true"), ""},
		{rules("amount in [" + strings.Repeat("1,", 2000) + "1]"), ""},
		{rules(strings.Repeat("[1].all(x, ", 20) + "true" + strings.Repeat(")", 20)), ""},
		{rules(strings.Repeat("(", 4000)), "recursion limit"},
		{rules(strings.Repeat("[1].all(x, ", 200) + "true" + strings.Repeat(")", 200)), "recursion limit"},
		{rules(strings.Repeat("a b ", 1000)), "f.yaml:6:37: rules[0].when: at character"},
		{rules(strings.Repeat("x", 4097)), "f.yaml:6:37: rules[0].when: maxLength"},
		{rules(`tenant.matches("(a{1000}){1000}")`), "rules[0].when"},
	} {
		err := loadHostile(t, test.text)
		if got := fmt.Sprint(err); (err == nil) != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%.60q: got %.300s, want %s", test.text, got, test.want)
		}
	}
}

// FuzzLoad: no bytes make it panic or last, every fault has a place, and what loads
// decides.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", head, "kind: policy_test\n", "? a\n: b\n", "&a *a", "{", "- - -\n", "\ufeff---\n...\n",
		head + "stages: {default: observe, action_types: {pay.*: reconcile, pay.refund: enforce}}\ntime_zone: Europe/Berlin\n",
		head + "rules: [{id: r, reason: too much, when: 'amount > 10 && args.?to.orValue(\"\") != \"x\"', then: require_approval, approvals: 2, ttl: 1h}]\n",
		head + "rules: [{id: r, reason: late, when: 'local.hour > 8 || budgets[\"b\"].after < 0', then: deny}]\nbudgets: [{id: b, of: spend, currency: EUR, limit: 10, per: [run, counterparty], window: {sliding: 24h}}]\n",
		head + "default: deny\nrules: [{id: r, reason: fine, when: 'tenant.matches(\"^a{1,9}$\")', then: allow}]\nper_operation: [{max_attempts: 2, max_elapsed: 1d}]\n",
		head + "other_currencies: allow\nintents: [{name: order, quiet: 1h, actions: {pay.refund: {to: args.to, n: 'string(args.amount)'}}}]\nbudgets: [{id: c, of: open, limit: \"3\"}]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { _ = loadHostile(t, string(data)) })
}
