package app

import (
	"context"
	"slices"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger"
)

// recording is a ledger that records every opening as op.
type recording struct {
	Ledger
	op ledger.Operation
}

func (r recording) Open(context.Context, ledger.Opening) (ledger.Operation, bool, error) {
	return r.op, true, nil
}

// What a restored ledger records in doubt is counted as that, and not as what was
// asked for.
func TestOpeningsAreCountedAsTheyWereRecorded(t *testing.T) {
	t.Parallel()
	claim := ledger.Opening{Event: ledger.Claim}
	ask := ledger.Opening{Event: ledger.Escalate, Review: &ledger.ReviewOpening{Reason: ledger.ApprovalRequired}}
	running := ledger.Operation{Tenant: "acme", ActionType: "demo.refund.create", State: ledger.Running}
	asked := ledger.Operation{Tenant: "acme", ActionType: "demo.refund.create", State: ledger.NeedsReview}
	doubted := ledger.Operation{Tenant: "acme", ActionType: "demo.refund.create", State: ledger.Unknown, Reason: ledger.ReasonRestored}
	escalated := doubted
	escalated.State = ledger.NeedsReview
	doubt := []string{"onceward_doubts_total restored", "onceward_moves_total doubt unknown"}
	for _, c := range []struct {
		name    string
		opening ledger.Opening
		op      ledger.Operation
		want    []string
	}{
		{"claimed", claim, running, []string{"onceward_moves_total claim running"}},
		{"asked", ask, asked, []string{"onceward_moves_total escalate needs_review", "onceward_reviews_opened_total approval_required"}},
		{"restored", claim, doubted, doubt},
		{"restored, and would be asked", ask, doubted, doubt},
		{"restored, and found with a person", ask, escalated, doubt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			told, err := telemetry.New(t.Context(), telemetry.Options{})
			if err != nil {
				t.Fatal(err)
			}
			registry, err := actions.NewRegistry()
			if err != nil {
				t.Fatal(err)
			}
			book := &observedLedger{Ledger: recording{op: c.op}, moves: told.Moves, registry: registry}
			if _, _, err := book.Open(t.Context(), c.opening); err != nil {
				t.Fatal(err)
			}
			if got := moved(t, told); !slices.Equal(got, c.want) {
				t.Errorf("counted %q, want %q", got, c.want)
			}
		})
	}
}

// moved lists what was counted of moves, doubts and reviews, with the labels that
// say what happened.
func moved(t *testing.T, told *telemetry.Telemetry) (counted []string) {
	t.Helper()
	families, err := told.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !slices.Contains([]string{"onceward_moves_total", "onceward_doubts_total", "onceward_reviews_opened_total"}, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			line := f.GetName()
			for _, label := range m.GetLabel() {
				if slices.Contains([]string{"event", "state", "reason"}, label.GetName()) {
					line += " " + label.GetValue()
				}
			}
			counted = append(counted, line)
		}
	}
	return counted
}
