package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	agenttrace "github.com/onceward/onceward/examples/agent-trace"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/forecast"
	"github.com/onceward/onceward/ledger"
)

// TestRolloutPageShowsTheReport holds that what docs/rollout.md shows is what is
// printed about the requests of the sample trace, played over a week, under the
// policy that the page describes.
func TestRolloutPageShowsTheReport(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	simulation := forecast.New("acme", forecast.Options{From: begun, To: begun.Add(7 * 24 * time.Hour), Examples: 2})
	for _, o := range observedTrace(t, begun) {
		if err := simulation.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	var printed bytes.Buffer
	printForecast(&printed, simulation.Report(""))
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "rollout.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+printed.String()+"```\n") {
		t.Errorf("docs/rollout.md does not show\n%s", printed.String())
	}
}

// observedTrace is what agents of acme send in the sample trace, where each
// millisecond is half a minute.
func observedTrace(t *testing.T, begun time.Time) []ledger.Observed {
	t.Helper()
	adapters, err := demo.New(demo.Options{ProviderURL: "http://127.0.0.1:1", Token: fakeprovider.DefaultToken})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := actions.NewRegistry(adapters...)
	if err != nil {
		t.Fatal(err)
	}
	var list []ledger.Observed
	lines := bufio.NewScanner(bytes.NewReader(agenttrace.Trace()))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Milliseconds int64 `json:"t_ms"`
			Request      struct {
				Tenant     string
				ActionType string `json:"action_type"`
				Arguments  json.RawMessage
				Key        string `json:"idempotency_key"`
				Run        ledger.Run
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		r := line.Request
		if r.Tenant != "acme" {
			continue
		}
		action, ok := registry.Get(r.ActionType)
		if !ok {
			t.Fatalf("line %d: no action type %s", n, r.ActionType)
		}
		args, err := actions.ParseArguments(r.Arguments)
		if err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		key, err := actions.ComposeKey(action.Spec, actions.KeyInput{Tenant: r.Tenant, CallerKey: r.Key, Run: r.Run.RunID, Step: r.Run.StepID, Arguments: args})
		if err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		o := ledger.Observed{At: begun.Add(time.Duration(line.Milliseconds) * 30 * time.Second), Observation: ledger.Observation{
			ID: fmt.Sprintf("0199f6f0-0000-7000-8000-%012d", n), Tenant: r.Tenant, ActionType: r.ActionType, Key: key.Text,
			ArgsHash: args.IdentityHash(action.Spec.AdvisoryArgs), Run: r.Run, Outcome: ledger.ObservedExecute,
			Verdict: ledger.Verdict{Decision: "allow", Rule: "agents"},
		}}
		if r.ActionType == "payments.refund.create" {
			underPolicy(t, &o, r.Arguments)
		}
		list = append(list, o)
	}
	return list
}

// underPolicy is what the policy of the page says about a refund.
func underPolicy(t *testing.T, o *ledger.Observed, arguments json.RawMessage) {
	t.Helper()
	var refund struct {
		Charge string `json:"charge_id"`
		Amount int64
	}
	if err := json.Unmarshal(arguments, &refund); err != nil {
		t.Fatal(err)
	}
	o.Amount, o.Currency = fmt.Sprintf("%d.%02d", refund.Amount/100, refund.Amount%100), "USD"
	o.Charges = []ledger.Charge{{
		Budget: "refunds-a-day", Subject: "tenant", Counter: "refunds-a-day", Kind: ledger.ChargeUse, Amount: o.Amount, Limit: "60", Window: ledger.Window{Unit: "day"},
	}}
	o.Fences = []ledger.Fence{{Intent: "refund:" + refund.Charge, Quiet: 24 * time.Hour}}
	if refund.Amount >= 4000 {
		o.Outcome, o.Verdict = ledger.ObservedRequireApproval, ledger.Verdict{Decision: "require_approval", Rule: "refunds-from-40"}
	}
}
