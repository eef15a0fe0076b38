package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const examplePolicies = "../../../examples/policies"

// TestPolicyCheck: the examples fit the demo; faults have their place, and what
// policies name is looked for.
func TestPolicyCheck(t *testing.T) {
	code, stdout, stderr := run(t, "policy", "check", "--demo", examplePolicies)
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "acme: version 7+") || !strings.Contains(stdout, "2 policies: nothing is wrong") {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}

	dir := t.TempDir()
	file := writeFile(t, dir, "p.yaml", `kind: policy
tenant: acme
version: "1"
allow:
  - {id: a, actors: ["*"], action_types: [no.such, "payments.*"]}
`)
	if code, stdout, _ := run(t, "policy", "check", file); code != exitOK || !strings.Contains(stdout, "1 policy: nothing is wrong") {
		t.Errorf("without action types: exit code %d, output %q", code, stdout)
	}
	code, _, stderr = run(t, "policy", "check", "--demo", file)
	if want := file + ":5:43: allow[0].action_types[0]: there is no action type no.such\nonceward: 1 thing is wrong\n"; code != exitError || stderr != want {
		t.Errorf("exit code %d, errors %q, want %q", code, stderr, want)
	}
	writeFile(t, dir, "p.yaml", "kind: policy\ntenant: acme\nversion: \"1\"\nallowed: []\nrules: 7\n")
	code, _, stderr = run(t, "policy", "check", dir)
	for _, want := range []string{":4:1: allowed: there is no such field", ":5:1: rules: is number, want array", "2 things are wrong"} {
		if code != exitError || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, errors %q, want %q", code, stderr, want)
		}
	}
}

// TestPolicyTest: a table that holds is one line, and what does not is said and
// ends with 1.
func TestPolicyTest(t *testing.T) {
	table := filepath.Join(examplePolicies, "acme_test.yaml")
	code, stdout, stderr := run(t, "policy", "test", table)
	if code != exitOK || stderr != "" || stdout != table+": 12 cases, 0 not as wanted\n" {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
	if _, stdout, _ = run(t, "policy", "test", "--show", table); !strings.Contains(stdout, "deny by no-large-refunds: refunds above 2000") {
		t.Errorf("--show prints %q", stdout)
	}

	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	policy, err := os.ReadFile(filepath.Join(examplePolicies, "acme.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "acme.yaml", strings.ReplaceAll(string(policy), "amount > 2000", "amount > 3000"))
	changed := writeFile(t, dir, "acme_test.yaml", string(text))
	code, stdout, stderr = run(t, "policy", "test", changed)
	if code != exitError || !strings.Contains(stdout, "a huge one is for finance\n  effect is require_approval, want deny\n") || stderr != "onceward: 1 case is decided otherwise than wanted\n" {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
	writeFile(t, dir, "acme.yaml", "kind: policy\n")
	if code, _, stderr = run(t, "policy", "test", changed); code != exitError || !strings.Contains(stderr, "acme.yaml:1:1: missing: tenant, version") {
		t.Errorf("exit code %d, errors %q", code, stderr)
	}
}

// TestPolicyTestKnowsSchemas: where it is known which action types there are, their
// schemas refuse what the policy would let through.
func TestPolicyTestKnowsSchemas(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "p.yaml", "kind: policy\ntenant: acme\nversion: \"1\"\nallow: [{id: all, actors: [\"*\"], action_types: [\"*\"]}]\n")
	table := writeFile(t, dir, "p_test.yaml", `kind: policy_test
policy: p.yaml
cases:
  - {name: fits, request: {action_type: payments.refund.create, actor: a, args: {charge_id: ch_42, amount: 4900, currency: usd}}, want: {effect: allow}}
  - {name: does not, request: {action_type: payments.refund.create, actor: a, args: {charge_id: ch_42, amount: "4900", currency: usd}}, want: {effect: allow}}
`)
	code, stdout, _ := run(t, "policy", "test", "--demo", table)
	if want := "p_test.yaml:5:6: does not\n  effect is deny, want allow\n  reason: the arguments do not fit the schema of the action type; arguments.amount "; code != exitError ||
		!strings.Contains(stdout, want) || !strings.Contains(stdout, "2 cases, 1 not as wanted") {
		t.Errorf("exit code %d, output %q, want %q", code, stdout, want)
	}
}

func TestPolicySchemas(t *testing.T) {
	for _, kind := range []string{"policy", "policy_test"} {
		if code, stdout, stderr := run(t, "schema", kind); code != exitOK || !strings.Contains(stdout, `"title": "Onceward `+kind+`"`) {
			t.Errorf("%s: exit code %d, errors %q", kind, code, stderr)
		}
	}
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
