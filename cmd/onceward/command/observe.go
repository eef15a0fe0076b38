package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/forecast"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

type observeCmd struct {
	Report observeReportCmd `cmd:"" help:"Predict from observed requests what enforcing would do."`
}

func (*observeCmd) Help() string { return (*observeReportCmd)(nil).Help() }

type observeReportCmd struct {
	DatabaseURL   string        `env:"ONCEWARD_DATABASE_URL" name:"database-url" required:"" help:"Postgres URL of a login that may read (onceward_read), or more."`
	Tenant        string        `help:"Only this tenant; else each of whom something was observed."`
	Since         span          `default:"7d" placeholder:"TIME" help:"This long until now, as in 36h or 7d; observations are kept for 30 days."`
	ActionType    string        `help:"Show only this action type; budgets and intents still count the others."`
	OperationTime time.Duration `default:"5s" help:"How long an operation is taken to be open."`
	Examples      int           `default:"3" help:"Examples of each kind, at most."`
	JSON          bool          `name:"json" help:"Print JSON."`
}

func (*observeReportCmd) Help() string {
	return `Example:
  onceward observe report --since=7d --tenant=acme --database-url=postgres://reader@db/onceward
  onceward observe report --action-type=payments.refund.create --json

Requests in the stage observe are recorded, and nothing else is done with them. The report replays them in the order
of time: against each other's keys, the policy as it was when they came, and their budgets, exactly, as if nothing had
been used when the time began. What nobody saw is assumed: each operation is open for --operation-time, reviewers say
yes, everything succeeds. So what depends on how long operations are open (open intents, budgets of open operations)
is an estimate, and a key is remembered as long as observations are kept.

docs/rollout.md says what to look at before each stage.`
}

// Run prints the report.
func (c *observeReportCmd) Run(ctx context.Context, s streams) error {
	if c.OperationTime <= 0 || c.Examples < 0 {
		return fmt.Errorf("%w: --operation-time must be above zero, and --examples cannot be negative", errUsage)
	}
	store, err := postgres.Open(ctx, c.DatabaseURL)
	if err != nil {
		return err
	}
	defer store.Close()
	reports, err := c.reports(ctx, store)
	switch {
	case errors.Is(err, ledger.ErrNoStatistics):
		return errors.New("the ledger has no observations: its schema is older than they are; run onceward migrate")
	case err != nil:
		return withAdvice(err)
	case c.JSON:
		return printJSON(s.out, map[string]any{"reports": reports})
	}
	if len(reports) == 0 {
		fmt.Fprintln(s.out, "Nothing was observed in this time. Requests are observed where the policy of a tenant has the stage observe; docs/rollout.md has the steps.")
		return nil
	}
	for i, report := range reports {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		printForecast(s.out, report)
	}
	return nil
}

// reports are those of the tenants that have something to report.
func (c *observeReportCmd) reports(ctx context.Context, store *postgres.Store) ([]forecast.Report, error) {
	tenants := []string{c.Tenant}
	if c.Tenant == "" {
		var err error
		if tenants, err = store.ObservedTenants(ctx); err != nil {
			return nil, err
		}
	}
	to := time.Now().UTC()
	from := to.Add(-time.Duration(c.Since))
	reports := []forecast.Report{}
	for _, tenant := range tenants {
		simulation := forecast.New(tenant, forecast.Options{From: from, To: to, OperationTime: c.OperationTime, Examples: c.Examples})
		if err := store.Observations(ctx, tenant, from, to, simulation.Add); err != nil {
			return nil, err
		}
		if report := simulation.Report(c.ActionType); len(report.ActionTypes) > 0 {
			reports = append(reports, report)
		}
	}
	return reports, nil
}

// printForecast writes a report for people: what would happen a day, then what
// that means for each action type.
func printForecast(w io.Writer, r forecast.Report) {
	long := fmt.Sprintf("%.1f days", r.Days)
	if r.Days < 2 {
		long = fmt.Sprintf("%.1f hours", 24*r.Days)
	}
	fmt.Fprintf(w, "Tenant %s, observed for %s until %s. What enforcing would do, a day:\n\n", r.Tenant, long, r.To.Format(time.RFC3339))
	rows := [][]string{{"ACTION TYPE", "REQUESTS", "SENT", "DUPLICATES", "MISMATCHES", "INVALID", "APPROVALS", "BY RULE", "BY BUDGET", "BY INTENT"}}
	for _, t := range r.ActionTypes {
		row := []string{t.ActionType}
		for _, n := range []int64{t.Requests, t.Sent, t.Duplicates, t.Mismatches, t.Invalid, t.Approvals, total(t.RefusedByRule), total(t.RefusedByBudget), t.IntentOpen + t.IntentQuiet} {
			row = append(row, daily(r.PerDay(n)))
		}
		rows = append(rows, row)
	}
	_ = printTable(w, rows) // it writes to w, whose errors no line here checks
	if r.Days < 1 {
		fmt.Fprintln(w, "\nLess than a day was observed: what a day has is extrapolated from it.")
	}
	for _, t := range r.ActionTypes {
		fmt.Fprintf(w, "\n%s: %s\n  %s\n", t.ActionType, requests(t.Requests), t.Verdict)
		for _, m := range t.Money {
			fmt.Fprintf(w, "  money: %s %s sent, %s by duplicates, %s refused\n", m.Currency, money(m.Sent), money(m.Duplicates), money(m.Refused))
		}
		printNamed(w, "refused by rule", t.RefusedByRule)
		printNamed(w, "refused by budget", t.RefusedByBudget)
		printExamples(w, t.Examples)
	}
	fmt.Fprintf(w, "\nAssumed: an operation is open for %g s, reviewers say yes, everything succeeds.\n", r.OperationSeconds)
}

func printNamed(w io.Writer, what string, list []forecast.Named) {
	if len(list) == 0 {
		return
	}
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = fmt.Sprintf("%s (%d)", n.Name, n.Count)
	}
	fmt.Fprintf(w, "  %s: %s\n", what, strings.Join(texts, ", "))
}

func printExamples(w io.Writer, examples []forecast.Example) {
	if len(examples) == 0 {
		return
	}
	rows := [][]string{}
	for _, e := range examples {
		where := strings.Trim(e.RunID+"/"+e.StepID, "/")
		rows = append(rows, []string{"  " + e.What, e.At.UTC().Format(time.RFC3339), e.ObservationID, where, e.Detail})
	}
	var table strings.Builder
	_ = printTable(&table, rows) // a builder takes everything
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n")) // an empty last column is blank
	}
}

func total(list []forecast.Named) (n int64) {
	for _, named := range list {
		n += named.Count
	}
	return n
}

// daily writes how often a day: seldom things with a fraction.
func daily(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n < 10:
		return fmt.Sprintf("%.1f", n)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}

func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}
