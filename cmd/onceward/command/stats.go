package command

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// span is a flag that says how long: "24h", or "7d" in days of 24 hours.
type span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *span) UnmarshalText(text []byte) error {
	given := string(text)
	days, inDays := strings.CutSuffix(given, "d")
	var d time.Duration
	var err error
	if inDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(given)
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no time: want one such as 36h or 7d", given)
	}
	*s = span(d)
	return nil
}

type statsCmd struct {
	client
	Since      span   `default:"24h" placeholder:"TIME" help:"This long until now, as in 24h or 7d, rounded up to full hours."`
	ActionType string `help:"Only this action type."`
}

func (*statsCmd) Help() string {
	return `Example:
  onceward stats
  onceward stats --since=30d --action-type=payments.refund.create --json

What was done with the requests of the tenant. Each prevented duplicate would have been one more effect; WORTH is what
they would have spent. It wants a key with the role reviewer, auditor or admin. Numbers are a few seconds old.`
}

// Run shows the statistics.
func (c *statsCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asReviewer)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewStatsServiceClient(conn).GetStats(ctx, &oncewardv1.GetStatsRequest{
		From: timestamppb.New(time.Now().Add(-time.Duration(c.Since))), ActionType: c.ActionType,
	})
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) { printStats(w, resp) })
}

// printStats writes what an engineer shows around: the sum first.
func printStats(w io.Writer, resp *oncewardv1.GetStatsResponse) {
	total := resp.GetTotal()
	fmt.Fprintf(w, "%s to %s\n\n", resp.GetFrom().AsTime().Format(time.RFC3339), resp.GetTo().AsTime().Format(time.RFC3339))
	if total.GetTracked() == 0 && total.GetRefused() == 0 {
		fmt.Fprintln(w, "No requests were counted in this time; what is new is counted some five seconds later. What is only observed is not counted: onceward observe report --help")
		return
	}
	fmt.Fprintf(w, "tracked                %d\nexecuted               %d\nduplicates prevented   %d (%s of what was tracked)\n",
		total.GetTracked(), total.GetExecuted(), total.GetDuplicatesPrevented(), rate(total.GetDuplicateRate()))
	fmt.Fprintf(w, "worth                  %s\nrefused                %d\n", sums(total.GetPrevented()), total.GetRefused())
	rows := [][]string{{"ACTION TYPE", "TRACKED", "EXECUTED", "DUPLICATES", "RATE", "WORTH", "REFUSED"}}
	for _, t := range resp.GetByActionType() {
		n := t.GetCounts()
		name := t.GetActionType()
		if name == "" {
			name = "(unknown)"
		}
		rows = append(rows, []string{name, number(n.GetTracked()), number(n.GetExecuted()), number(n.GetDuplicatesPrevented()),
			rate(n.GetDuplicateRate()), sums(n.GetPrevented()), number(n.GetRefused())})
	}
	fmt.Fprintln(w)
	_ = printTable(w, rows) // it writes to w, whose errors no line here checks
	if len(resp.GetByCause()) == 0 {
		return
	}
	rows = [][]string{{"CAUSE", "DUPLICATES", "STATED BY THE CALLER"}}
	for _, c := range resp.GetByCause() {
		cause := "not known"
		if c.GetCause() != oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED {
			cause = strings.ReplaceAll(lower(c.GetCause().String(), "RETRY_CAUSE_"), "_", " ")
		}
		rows = append(rows, []string{cause, number(c.GetDuplicates()), number(c.GetStated())})
	}
	fmt.Fprintln(w)
	_ = printTable(w, rows) // as above
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func rate(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// sums lists amounts, or a dash for none.
func sums(amounts []*oncewardv1.Money) string {
	texts := make([]string, len(amounts))
	for i, m := range amounts {
		texts[i] = money(m.GetAmount()) + " " + m.GetCurrency()
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ", ")
}

// money writes an exact decimal as people do: 2842.5 is 2842.50.
func money(amount string) string {
	if point := strings.IndexByte(amount, '.'); point >= 0 && point == len(amount)-2 {
		return amount + "0"
	}
	return amount
}
