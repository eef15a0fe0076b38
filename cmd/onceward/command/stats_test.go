package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// TestStats shows what was counted of one tenant.
func TestStats(t *testing.T) {
	w := apptest.New(t, apptest.Options{})
	replica := w.Start(t, nil)
	hour := time.Now().UTC().Truncate(time.Hour)
	tally := func(tenant string, at time.Time, actionType, what, cause, currency string, count int64, amount string) ledger.Tally {
		return ledger.Tally{Tenant: tenant, Hour: at, ActionType: actionType, What: what, Cause: cause, Stated: cause == "tool_timeout", Currency: currency, Count: count, Amount: amount}
	}
	err := w.Database.Open(t).AddTallies(t.Context(), ledgertest.ID(), []ledger.Tally{
		tally("acme", hour, "payments.refund.create", "executed", "", "", 941, "0"),
		tally("acme", hour, "payments.refund.create", "duplicate", "tool_timeout", "EUR", 40, "1960"),
		tally("acme", hour, "payments.refund.create", "duplicate", "model_retry", "EUR", 18, "882.50"),
		tally("acme", hour, "payments.refund.create", "duplicate", "", "USD", 1, "49"),
		tally("acme", hour, "payments.refund.create", "refused", "BUDGET_EXHAUSTED", "", 7, "0"),
		tally("acme", hour, "email.invoice.send", "executed", "", "", 12, "0"),
		tally("acme", hour.Add(-26*time.Hour), "email.invoice.send", "executed", "", "", 5, "0"),
		tally("globex", hour, "notes.insert", "executed", "", "", 3, "0"),
	})
	if err != nil {
		t.Fatal(err)
	}
	stats := func(args ...string) (int, string, string) {
		return run(t, append([]string{"stats", "--address=" + replica.Address, "--api-key=" + w.Reviewer}, args...)...)
	}
	code, stdout, stderr := stats()
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, errors %q", code, stderr)
	}
	for _, want := range []string{
		`(?m)^\S+T\d\d:00:00Z to \S+T\d\d:00:00Z$`,
		`(?m)^tracked +1012$`, `(?m)^executed +953$`, `(?m)^duplicates prevented +59 \(5\.8 % of what was tracked\)$`, `(?m)^worth +2842\.50 EUR, 49 USD$`, `(?m)^refused +7$`,
		`(?m)^ACTION TYPE +TRACKED +EXECUTED +DUPLICATES +RATE +WORTH +REFUSED$`,
		`(?m)^payments\.refund\.create +1000 +941 +59 +5\.9 % +2842\.50 EUR, 49 USD +7$`, `(?m)^email\.invoice\.send +12 +12 +0 +0\.0 % +- +0$`,
		`(?m)^CAUSE +DUPLICATES +STATED BY THE CALLER$\n^tool timeout +40 +40$\n^model retry +18 +0$\n^not known +1 +0$`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("want %s in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "notes.insert") {
		t.Errorf("another tenant's numbers are shown:\n%s", stdout)
	}
	if _, stdout, _ = stats("--since=2d", "--action-type=email.invoice.send"); !regexp.MustCompile(`(?m)^tracked +17$`).MatchString(stdout) || strings.Contains(stdout, "payments") {
		t.Errorf("two days of one action type:\n%s", stdout)
	}
	_, stdout, _ = stats("--json")
	var answer struct {
		Total struct {
			Tracked   string `json:"tracked"`
			Prevented []struct{ Amount, Currency string }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Total.Tracked != "1012" || len(answer.Total.Prevented) != 2 {
		t.Errorf("as JSON: %v, %+v in\n%s", err, answer, stdout)
	}
	if _, stdout, _ = stats("--action-type=no.such"); !strings.Contains(stdout, "No requests were counted") {
		t.Errorf("of nothing:\n%s", stdout)
	}
	code, stdout, stderr = stats("--since=401d")
	if code != exitError {
		t.Errorf("401 days: exit code %d", code)
	}
	checkErrorLine(t.Errorf, stdout, stderr, regexp.MustCompile(`INVALID_REQUEST: from: is more than 400 days`))
	code, stdout, stderr = stats("--api-key=" + w.Agent)
	if code != exitError {
		t.Errorf("as an agent: exit code %d", code)
	}
	checkErrorLine(t.Errorf, stdout, stderr, regexp.MustCompile(`ROLE_REQUIRED: this call wants the role reviewer or auditor or admin`))
}
