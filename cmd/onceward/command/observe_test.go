package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/forecast"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// TestObserveReport predicts from what a ledger observed, as a login that may
// only read.
func TestObserveReport(t *testing.T) {
	store, db := ledgertest.NewStore(t)
	reader := readingLogin(t, db)
	report := func(args ...string) (int, string, string) {
		return run(t, append([]string{"observe", "report", "--database-url=" + reader}, args...)...)
	}
	if code, stdout, stderr := report(); code != 0 || stderr != "" || !strings.Contains(stdout, "Nothing was observed") {
		t.Errorf("before anything was observed: exit code %d, %q, errors %q", code, stdout, stderr)
	}

	ids := map[string]string{}
	observe := func(tenant, name, key string, change func(*ledger.Observation)) {
		t.Helper()
		o := ledger.Observation{
			ID: ledgertest.ID(), Tenant: db.Tenant(t, tenant), Actor: "planner", ActionType: "payments.refund.create", Key: key, ArgsHash: ledgertest.Hash("a"),
			Run:     ledger.Run{RunID: "run_" + name, StepID: "refund"},
			Outcome: ledger.ObservedExecute, Verdict: ledger.Verdict{Decision: "allow", Rule: "small-refunds", PolicyVersion: "1"}, Amount: "49", Currency: "EUR",
			Charges: []ledger.Charge{{Budget: "per-day", Subject: "tenant", Counter: "c", Kind: ledger.ChargeUse, Amount: "49", Limit: "100", Window: ledger.Window{}}},
		}
		if change != nil {
			change(&o)
		}
		ids[name] = o.ID
		if _, err := store.Observe(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	observe("acme", "first", "a", nil)
	observe("acme", "again", "a", nil)
	observe("acme", "second", "b", nil)
	observe("acme", "third", "c", nil) // beyond the budget
	observe("acme", "large", "d", func(o *ledger.Observation) {
		o.Outcome, o.Verdict = ledger.ObservedRefused, ledger.Verdict{Decision: "deny", Rule: "no-large-refunds"}
	})
	observe("acme", "mail", "e", func(o *ledger.Observation) {
		o.ActionType, o.Amount, o.Currency, o.Charges = "email.invoice.send", "", "", nil
	})
	observe("globex", "other", "a", nil)

	code, stdout, stderr := report("--tenant=acme")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, errors %q", code, stderr)
	}
	for _, want := range []string{
		`^Tenant acme, observed for 1\.0 hours until \S+Z\. What enforcing would do, a day:$`,
		`^Less than a day was observed: `,
		`^ACTION TYPE +REQUESTS +SENT +DUPLICATES +MISMATCHES +INVALID +APPROVALS +BY RULE +BY BUDGET +BY INTENT$`,
		`^payments\.refund\.create +\S+ +\S+ +\S+ +- +- +- +\S+ +\S+ +-$`,
		`^payments\.refund\.create: 5 requests$`,
		`^  Enforcing would prevent 1 duplicate worth 49 EUR, refuse 2 requests \(40\.0 % of all\)\.$`,
		`^  money: EUR 98 sent, 49 by duplicates, 98 refused$`,
		`^  refused by rule: no-large-refunds \(1\)$`, `^  refused by budget: per-day \(1\)$`,
		`^  duplicate +\S+ +` + ids["again"] + ` +run_again/refund`,
		`^  refused by budget +\S+ +` + ids["third"] + ` +run_third/refund +per-day of tenant: 98 of 100 were used, 49 wanted$`,
		`^email\.invoice\.send: 1 request$`, `^  Enforcing would find no duplicates\. Nothing that runs today would be refused\.$`,
		`^Assumed: an operation is open for 5 s, reviewers say yes, everything succeeds\.$`,
	} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(stdout) {
			t.Errorf("want %s in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "globex") {
		t.Errorf("another tenant is shown:\n%s", stdout)
	}

	_, stdout, _ = report("--json", "--action-type=payments.refund.create", "--examples=0", "--since=24h", "--operation-time=30s")
	var answer struct{ Reports []forecast.Report }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Reports) != 2 {
		t.Fatalf("as JSON: %v, want the reports of two tenants in\n%s", err, stdout)
	}
	acme := answer.Reports[0]
	if acme.Tenant != "acme" || acme.OperationSeconds != 30 || len(acme.ActionTypes) != 1 || acme.ActionTypes[0].Requests != 5 || len(acme.ActionTypes[0].Examples) != 0 {
		t.Errorf("as JSON: %+v", acme)
	}

	db.Exec(t, `DROP TABLE observations CASCADE`)
	code, stdout, stderr = report("--tenant=acme")
	if code != exitError {
		t.Errorf("on an older schema: exit code %d", code)
	}
	checkErrorLine(t.Errorf, stdout, stderr, regexp.MustCompile(`schema is older .*; run onceward migrate`))
}

// readingLogin makes a login that may read one database, and nothing else.
func readingLogin(t *testing.T, db ledgertest.Database) string {
	t.Helper()
	u, err := url.Parse(db.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	name := "reader_of_" + strings.TrimPrefix(u.Path, "/")
	db.Exec(t, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD 'test' IN ROLE onceward_read`, name))
	t.Cleanup(func() { // of the whole server, and so not gone with the database
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, db.OwnerURL)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = conn.Exec(ctx, `DROP ROLE `+name)
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(name, "test")
	return u.String()
}
