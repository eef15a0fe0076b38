package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/catalog"
)

// promised are the providers that the catalogue must have.
func promised() []string {
	return []string{
		"adyen", "github", "hubspot", "jira", "linear", "paypal", "postmark", "resend", "salesforce", "sendgrid",
		"shopify", "slack", "square", "stripe", "twilio", "zendesk",
	}
}

func TestEntries(t *testing.T) {
	for _, name := range promised() {
		entry, _, err := catalog.Get(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if entry.Provider == nil || entry.Provider.Name != name || len(entry.Actions) < 2 {
			t.Errorf("%s: want one provider of this name and at least two actions", name)
		}
		for _, a := range entry.Actions {
			if !strings.HasPrefix(a.Type, name+".") || a.Provider != name {
				t.Errorf("%s: %s is not of this provider", name, a.Type)
			}
			if a.Owner == "" || a.Risk == "" || a.Simulate == nil {
				t.Errorf("%s: %s wants an owner, a risk and how it is simulated", name, a.Type)
			}
		}
	}
	if _, _, err := catalog.Get("../catalog"); err == nil || !strings.Contains(err.Error(), "stripe") {
		t.Errorf("got %v", err)
	}
}

// Every fact says where it was read, or that it was not.
func TestFactsHaveSources(t *testing.T) {
	names, err := catalog.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		entry, _, err := catalog.Get(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		facts, unverified := 0, 0
		count := func(file string) func(string, definition.Proof) {
			return func(field string, p definition.Proof) {
				if strings.HasSuffix(field, "].request") || strings.HasSuffix(field, "].receipt") {
					return // a part of a look-up or an event, which says it
				}
				facts++
				if p.Unverified {
					unverified++
				}
				if (p.Source == "") == !p.Unverified {
					t.Errorf("%s: %s: want a source, or unverified: true", file, field)
				}
			}
		}
		definition.EachProof(entry.Provider, count(entry.Provider.Place.File))
		for _, a := range entry.Actions {
			definition.EachProof(a, count(a.Place.File))
		}
		t.Logf("%s: %d facts, %d of them unverified", name, facts, unverified)
	}
}

func TestFiles(t *testing.T) {
	files, err := catalog.Files("stripe")
	if err != nil || len(files["provider.yaml"]) == 0 {
		t.Errorf("got %d files (%v)", len(files), err)
	}
}

// What moves money says how much, and what a second one would be: budgets and
// intents are no better than what the entries say.
func TestMoneyIsCounted(t *testing.T) {
	// The link is paid by whom it may concern, and the order is captured later.
	movesNone := []string{"adyen.payment_link.create", "paypal.order.create"}
	counted := 0
	for _, a := range everyAction(t) {
		arguments, _ := a.Arguments["properties"].(map[string]any)
		_, amount := arguments["amount"]
		_, currency := arguments["currency"]
		if a.Owner == "payments" && a.Type != "stripe.customer.create" && len(a.Intents) == 0 {
			t.Errorf("%s: money without an intent: a planner that says it anew would move it twice", a.Type)
		}
		if !amount || !currency || slices.Contains(movesNone, a.Type) {
			continue
		}
		counted++
		if a.Spending == nil || a.Spending.Amount == "" || a.Spending.Counterparty == "" {
			t.Errorf("%s: has an amount with its currency, and no spending", a.Type)
		}
	}
	if counted < 8 {
		t.Errorf("only %d actions have an amount with its currency", counted)
	}
}

// Addresses of people are marked wherever an argument is one.
func TestAddressesAreSensitive(t *testing.T) {
	marked := 0
	for _, a := range everyAction(t) {
		arguments, _ := a.Arguments["properties"].(map[string]any)
		for name, schema := range arguments {
			property, _ := schema.(map[string]any)
			pattern, _ := property["pattern"].(string)
			if !strings.Contains(pattern, "@") || name == "from" {
				continue
			}
			marked++
			if a.Sensitive == nil || !slices.Contains(a.Sensitive.Arguments, name) {
				t.Errorf("%s: %s is an address, and not marked as sensitive", a.Type, name)
			}
		}
	}
	if marked < 10 {
		t.Errorf("only %d arguments are addresses", marked)
	}
}

func everyAction(t *testing.T) map[string]*definition.Action {
	t.Helper()
	names, err := catalog.Names()
	if err != nil {
		t.Fatal(err)
	}
	set, err := catalog.Load(names...)
	if err != nil {
		t.Fatal(err)
	}
	return set.Actions
}
