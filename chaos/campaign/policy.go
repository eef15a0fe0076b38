package campaign

import (
	"fmt"
	"os"
	"path/filepath"
)

// budgetID is the budget whose use must be the effects' to the cent.
const budgetID = "refunds"

// policyTexts are the tenants' policies, by file name.
func policyTexts() map[string]string {
	const allow = `allow:
  - id: planners
    actors: ["planner*"]
    action_types: [payments.refund.create, email.invoice.send, crm.contact.create, notes.insert]
`
	texts := map[string]string{
		acme: `stages: {default: reconcile}
` + allow + `rules:
  - id: large-refund
    reason: refunds above 40 want the yes of a person
    action_types: [payments.*]
    when: amount > 40
    then: require_approval
    ttl: 1h
budgets:
  - {id: refunds, of: spend, currency: USD, limit: "900000.00", action_types: [payments.*], window: {sliding: 24h}}
  - {id: at-once, of: open, limit: 400}
per_operation:
  - {max_attempts: 30, max_elapsed: 1h}
intent_id_quiet: 24h
`,
		globex:  "stages: {default: reconcile}\n" + allow,
		initech: "stages: {default: protect}\n" + allow,
	}
	for tenant, text := range texts {
		texts[tenant] = fmt.Sprintf("kind: policy\ntenant: %s\nversion: \"1\"\n%s", tenant, text)
	}
	return texts
}

// writePolicies writes them into a folder, which it makes.
func writePolicies(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for tenant, text := range policyTexts() {
		if err := os.WriteFile(filepath.Join(dir, tenant+".yaml"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
