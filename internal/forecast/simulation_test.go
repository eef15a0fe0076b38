package forecast_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/forecast"
	"github.com/onceward/onceward/ledger"
)

// monday is when tests begin: 2026-11-30 is a Monday.
var monday = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// request is an observation some time after monday noon.
func request(after time.Duration, key string, changes ...func(*ledger.Observed)) ledger.Observed {
	o := ledger.Observed{At: monday.Add(after), Observation: ledger.Observation{
		ID: fmt.Sprintf("%s@%s", key, after), Tenant: "acme", ActionType: "refund", Key: key, ArgsHash: ledger.Hash{1},
		Outcome: ledger.ObservedExecute, Verdict: ledger.Verdict{Decision: "allow", Rule: "r"}, Run: ledger.Run{RunID: "run", StepID: "step"},
	}}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func spends(amount string) func(*ledger.Observed) {
	return func(o *ledger.Observed) { o.Amount, o.Currency = amount, "EUR" }
}

// seen is how the ledger found it: keys compared as if nothing were refused.
func seen(outcome ledger.ObservedOutcome) func(*ledger.Observed) {
	return func(o *ledger.Observed) { o.Outcome = outcome }
}

func approval(o *ledger.Observed) {
	o.Outcome, o.Verdict.Decision = ledger.ObservedRequireApproval, "require_approval"
}

func otherArguments(o *ledger.Observed) { o.ArgsHash = ledger.Hash{2} }

func charges(kind ledger.ChargeKind, amount, limit string, w ledger.Window) func(*ledger.Observed) {
	return func(o *ledger.Observed) {
		o.Charges = append(o.Charges, ledger.Charge{Budget: "b", Subject: "tenant", Counter: fmt.Sprint("b", kind, w), Kind: kind, Amount: amount, Limit: limit, Window: w})
	}
}

func fenced(intent string, quiet time.Duration) func(*ledger.Observed) {
	return func(o *ledger.Observed) { o.Fences = append(o.Fences, ledger.Fence{Intent: intent, Quiet: quiet}) }
}

// outcomes replays requests and tells what came of each, by watching the sums.
func outcomes(t *testing.T, o forecast.Options, requests ...ledger.Observed) []string {
	t.Helper()
	o.From, o.To = monday, monday.Add(24*time.Hour)
	s := forecast.New("acme", o)
	before := map[string]int64{}
	var list []string
	for _, r := range requests {
		if err := s.Add(r); err != nil {
			t.Fatal(err)
		}
		now := map[string]int64{}
		for _, a := range s.Report("").ActionTypes {
			for what, n := range map[string]int64{
				"sent": a.Sent, "approval": a.Approvals, "duplicate": a.Duplicates, "mismatch": a.Mismatches, "invalid": a.Invalid,
				"rule": sum(a.RefusedByRule), "budget": sum(a.RefusedByBudget), "open": a.IntentOpen, "quiet": a.IntentQuiet,
			} {
				now[what] += n
			}
		}
		var grew []string
		for what, n := range now {
			if n != before[what] {
				grew = append(grew, what)
			}
		}
		list = append(list, strings.Join(grew, "+"))
		before = now
	}
	return list
}

func sum(list []forecast.Named) (n int64) {
	for _, named := range list {
		n += named.Count
	}
	return n
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	day := ledger.Window{Unit: "day"}
	const h, m, s = time.Hour, time.Minute, time.Second
	dup, mis := seen(ledger.ObservedDuplicate), seen(ledger.ObservedMismatch)
	use := func(amount string, w ledger.Window) func(*ledger.Observed) {
		return charges(ledger.ChargeUse, amount, "100", w)
	}
	for name, tt := range map[string]struct {
		requests []ledger.Observed
		want     string
	}{
		"keys": {[]ledger.Observed{
			request(0, "a"), request(s, "a", dup), request(2*s, "a", mis, otherArguments), request(3*s, "b"), request(4*s, "a", dup),
		}, "sent | duplicate | mismatch | sent | duplicate"},
		"keys of before the span": {[]ledger.Observed{request(0, "a", dup), request(s, "a", dup), request(2*s, "a", mis, otherArguments)}, "duplicate | duplicate | mismatch"},
		"what takes no key": {[]ledger.Observed{
			request(0, "a", seen(ledger.ObservedRefused)), request(s, "", seen(ledger.ObservedInvalid)), request(2*s, "a"), request(3*s, "a", seen(ledger.ObservedRefused)),
		}, "rule | invalid | sent | rule"},
		"approvals": {[]ledger.Observed{
			request(0, "a", approval), request(s, "a", approval, dup), request(2*s, "b", approval),
		}, "approval | duplicate | approval"},

		"a budget is filled to the cent": {[]ledger.Observed{
			request(0, "a", use("33.33", day)), request(1, "b", use("66.67", day)), request(2, "c", use("0.000000000001", day)), request(3, "d", use("0", day)),
		}, "sent | sent | budget | sent"},
		"what is refused charges nothing": {[]ledger.Observed{
			request(0, "a", use("60", day)), request(1, "b", use("60", day)), request(2, "c", use("40", day)),
		}, "sent | budget | sent"},
		"duplicates charge nothing": {[]ledger.Observed{
			request(0, "a", use("60", day)), request(1, "a", dup, use("60", day)), request(2, "c", use("40", day)),
		}, "sent | duplicate | sent"},
		"all or nothing": {[]ledger.Observed{
			request(0, "a", use("60", day), charges(ledger.ChargeUse, "1", "0", ledger.Window{Unit: "week"})), request(1, "b", use("100", day)),
		}, "budget | sent"},
		// Its key is free, so that the same request is a new one, with what it asks for now.
		"a refused request comes again": {[]ledger.Observed{
			request(11*h, "a", use("60", day)), request(11*h+1, "b", use("60", day)), request(11*h+2, "b", dup, use("60", day)),
			request(11*h+3, "b", mis, otherArguments, use("40", day)), request(11*h+4, "b", dup, use("60", day)), request(11*h+5, "b", mis, otherArguments, use("40", day)),
		}, "sent | budget | budget | sent | mismatch | duplicate"},
		"a refused request that wanted approval": {[]ledger.Observed{
			request(0, "a", use("60", day)), request(1, "b", approval, use("60", day)), request(24*h, "b", approval, dup, use("60", day)),
		}, "sent | budget | approval"},

		"a calendar day in UTC": {[]ledger.Observed{
			request(0, "a", use("100", day)), request(12*h-1, "b", use("1", day)), request(12*h, "c", use("1", day)),
		}, "sent | budget | sent"},
		"a calendar day elsewhere": {[]ledger.Observed{ // Tokyo is nine hours ahead
			request(0, "a", use("100", ledger.Window{Unit: "day", Zone: "Asia/Tokyo"})), request(3*h-1, "b", use("1", ledger.Window{Unit: "day", Zone: "Asia/Tokyo"})),
			request(3*h, "c", use("1", ledger.Window{Unit: "day", Zone: "Asia/Tokyo"})),
		}, "sent | budget | sent"},
		"a minute": {[]ledger.Observed{
			request(30*s, "a", use("100", ledger.Window{Unit: "minute"})), request(m-1, "b", use("1", ledger.Window{Unit: "minute"})), request(m, "c", use("1", ledger.Window{Unit: "minute"})),
		}, "sent | budget | sent"},
		"an hour where clocks are half an hour off": {[]ledger.Observed{
			request(0, "a", use("100", ledger.Window{Unit: "hour", Zone: "Asia/Kolkata"})), request(30*m-1, "b", use("1", ledger.Window{Unit: "hour", Zone: "Asia/Kolkata"})),
			request(30*m, "c", use("1", ledger.Window{Unit: "hour", Zone: "Asia/Kolkata"})),
		}, "sent | budget | sent"},
		"a week begins on Monday": {[]ledger.Observed{
			request(-24*h, "a", use("100", ledger.Window{Unit: "week"})), request(-12*h-1, "b", use("1", ledger.Window{Unit: "week"})), request(-12*h, "c", use("100", ledger.Window{Unit: "week"})),
			request(7*24*h-12*h-1, "d", use("1", ledger.Window{Unit: "week"})), request(7*24*h-12*h, "e", use("1", ledger.Window{Unit: "week"})),
		}, "sent | budget | sent | budget | sent"},
		"a month": {[]ledger.Observed{
			request(0, "a", use("100", ledger.Window{Unit: "month"})), request(12*h-1, "b", use("1", ledger.Window{Unit: "month"})), request(12*h, "c", use("100", ledger.Window{Unit: "month"})),
			request(31*24*h+12*h-1, "d", use("1", ledger.Window{Unit: "month"})), request(31*24*h+12*h, "e", use("1", ledger.Window{Unit: "month"})),
		}, "sent | budget | sent | budget | sent"},
		"for ever": {[]ledger.Observed{
			request(0, "a", use("100", ledger.Window{})), request(10000*h, "b", use("1", ledger.Window{})),
		}, "sent | budget"},
		// Free one step of a minute after the window, and not before it.
		"the last hour": {[]ledger.Observed{
			request(30*s, "a", use("60", ledger.Window{Sliding: h})), request(59*m, "b", use("40", ledger.Window{Sliding: h})), request(h+m-1, "c", use("1", ledger.Window{Sliding: h})),
			request(h+m, "d", use("60", ledger.Window{Sliding: h})), request(h+m, "e", use("1", ledger.Window{Sliding: h})),
		}, "sent | sent | budget | sent | budget"},
		"a rate": {[]ledger.Observed{
			request(0, "a", charges(ledger.ChargeRate, "1", "1", ledger.Window{Sliding: m})), request(m, "b", charges(ledger.ChargeRate, "1", "1", ledger.Window{Sliding: m})),
			request(m+s, "c", charges(ledger.ChargeRate, "1", "1", ledger.Window{Sliding: m})),
		}, "sent | budget | sent"},
		"open at once": {[]ledger.Observed{
			request(0, "a", charges(ledger.ChargeOpen, "1", "2", ledger.Window{})), request(s, "b", charges(ledger.ChargeOpen, "1", "2", ledger.Window{})),
			request(2*s, "c", charges(ledger.ChargeOpen, "1", "2", ledger.Window{})), request(5*s, "d", charges(ledger.ChargeOpen, "1", "2", ledger.Window{})),
			request(5*s, "e", charges(ledger.ChargeOpen, "1", "2", ledger.Window{})),
		}, "sent | sent | budget | sent | budget"},

		"an intent is open, then free": {[]ledger.Observed{
			request(0, "a", fenced("order", 0)), request(5*s-1, "b", fenced("order", 0)), request(5*s-1, "c", fenced("other", 0)), request(5*s, "b", dup, fenced("order", 0)),
		}, "sent | open | sent | sent"},
		"an intent is quiet": {[]ledger.Observed{
			request(0, "a", fenced("order", h)), request(s, "a", dup, fenced("order", h)), request(5*s, "b", fenced("order", h)), request(h+5*s, "c", fenced("order", 0)),
		}, "sent | duplicate | quiet | sent"},
		"an intent refuses before anything is charged": {[]ledger.Observed{
			request(0, "a", fenced("order", 0)), request(s, "b", fenced("order", 0), use("100", day)), request(2*s, "c", use("100", day)),
		}, "sent | open | sent"},
		"a budget refuses before anything is fenced": {[]ledger.Observed{
			request(0, "a", use("101", day), fenced("order", 0)), request(s, "b", fenced("order", 0)),
		}, "budget | sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(outcomes(t, forecast.Options{OperationTime: 5 * time.Second}, tt.requests...), " | "); got != tt.want {
				t.Errorf("came to\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestSimulationRefusesWhatNoPolicyYields(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ledger.Observed{
		"amount":       request(0, "a", spends("ten")),
		"exponent":     request(0, "a", spends("1e999999999")),
		"negative":     request(0, "a", charges(ledger.ChargeUse, "-1", "1", ledger.Window{})),
		"limit":        request(0, "a", charges(ledger.ChargeUse, "1", "", ledger.Window{})),
		"zone":         request(0, "a", charges(ledger.ChargeUse, "1", "1", ledger.Window{Unit: "day", Zone: "Mars/Olympus"})),
		"unit of time": request(0, "a", charges(ledger.ChargeUse, "1", "1", ledger.Window{Unit: "fortnight"})),
	} {
		if err := forecast.New("acme", forecast.Options{}).Add(o); err == nil || !strings.Contains(err.Error(), o.ID) {
			t.Errorf("%s: %v, want an error that names the observation", name, err)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	s := forecast.New("acme", forecast.Options{From: monday.Add(-7 * 24 * time.Hour), To: monday.Add(2 * 24 * time.Hour), Examples: 1})
	mail := func(o *ledger.Observed) { o.ActionType = "mail" }
	for _, o := range []ledger.Observed{
		request(0, "a", spends("10.50"), charges(ledger.ChargeUse, "10.50", "20", ledger.Window{})),
		request(1, "a", spends("10.50"), seen(ledger.ObservedDuplicate)),
		request(2, "a", spends("10.50"), seen(ledger.ObservedDuplicate)),
		request(3, "b", spends("10"), charges(ledger.ChargeUse, "10", "20", ledger.Window{})),
		request(4, "c", spends("7"), seen(ledger.ObservedRefused), func(o *ledger.Observed) { o.Verdict.Rule = "no-large" }),
		request(5, "d", spends("2"), approval),
		request(6, "d", seen(ledger.ObservedMismatch), otherArguments),
		request(7, "m", mail),
	} {
		if err := s.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Report("")
	want := forecast.Report{
		Tenant: "acme", From: monday.Add(-7 * 24 * time.Hour), To: monday.Add(2 * 24 * time.Hour), Days: 2, OperationSeconds: 5,
		ActionTypes: []forecast.ActionType{
			{
				ActionType: "refund", Requests: 7, Sent: 1, Approvals: 1, Duplicates: 2, Mismatches: 1,
				RefusedByRule: []forecast.Named{{Name: "no-large", Count: 1}}, RefusedByBudget: []forecast.Named{{Name: "b", Count: 1}},
				Money: []forecast.Money{{Currency: "EUR", Sent: "12.5", Duplicates: "21", Refused: "17"}},
				Examples: []forecast.Example{
					example("duplicate", "a", 1, ""), example("refused by budget", "b", 3, "b of tenant: 10.5 of 20 were used, 10 wanted"),
					example("refused by rule", "c", 4, "no-large"), example("approval", "d", 5, "r"), example("mismatch", "d", 6, ""),
				},
				Verdict: "Enforcing would prevent 2 duplicates worth 21 EUR, refuse 2 requests (28.6 % of all), and ask a reviewer once. " +
					"Mend the callers first: whatever the policy says, 1 request with a key that was used for something else would be refused.",
			},
			{ActionType: "mail", Requests: 1, Sent: 1, Verdict: "Enforcing would find no duplicates. Nothing that runs today would be refused."},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("report is\n%+v\nwant\n%+v", got, want)
	}
	if perDay := got.PerDay(7); perDay != 3.5 {
		t.Errorf("%g requests a day, want 3.5", perDay)
	}
	if one := s.Report("mail"); len(one.ActionTypes) != 1 || !slices.Equal(one.ActionTypes[0].Examples, want.ActionTypes[1].Examples) {
		t.Errorf("of one action type: %+v", one)
	}
	if nothing := forecast.New("acme", forecast.Options{From: monday, To: monday}).Report(""); nothing.ActionTypes == nil || nothing.Days <= 0 {
		t.Errorf("of nothing: %+v", nothing)
	}
}

func example(what, key string, after time.Duration, detail string) forecast.Example {
	return forecast.Example{What: what, ObservationID: fmt.Sprintf("%s@%s", key, after), At: monday.Add(after), RunID: "run", StepID: "step", Detail: detail}
}
