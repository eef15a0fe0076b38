package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// printOperation writes an operation for people: a line a fact, and only facts
// that there are.
func printOperation(w io.Writer, op *oncewardv1.Operation) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, strings.TrimSpace(value))
		}
	}
	line("operation", op.GetId())
	line("action", op.GetActionType())
	line("key", op.GetIdempotencyKey())
	line("amount", strings.TrimSpace(op.GetAmount()+" "+op.GetCurrency()))
	line("state", lower(op.GetState().String(), "OPERATION_STATE_")+", effect "+lower(op.GetEffect().String(), "EFFECT_"))
	if r := op.GetReceipt(); r != nil {
		line("receipt", r.GetProviderReference()+" "+r.GetJson())
	}
	if f := op.GetFailure(); f != nil {
		line("reason", f.GetCode()+": "+f.GetMessage())
	}
	line("INCIDENT", op.GetIncident())
	if r := op.GetReview(); r != nil {
		decision := "open"
		if r.GetDecidedBy() != "" {
			decision = lower(r.GetDecision().String(), "REVIEW_DECISION_") + " by " + r.GetDecidedBy()
		}
		line("review", fmt.Sprintf("%s (%s, %s): %s", r.GetId(), lower(r.GetReason().String(), "REVIEW_REASON_"), decision, r.GetDetail()))
		if r.GetRequiredApprovals() > 1 {
			line("approvals", fmt.Sprintf("%d of %d %s", len(r.GetApprovals()), r.GetRequiredApprovals(), approvers(r)))
		}
	}
	for _, a := range op.GetAttempts() {
		outcome := a.GetOutcome()
		if outcome == "" {
			outcome = "under way"
		}
		line("attempt", fmt.Sprintf("%d, %s: %s %s", a.GetNumber(), a.GetStartedAt().AsTime().Format(time.RFC3339), outcome, a.GetEvidence()))
	}
}

// approvers are the names of those who have said yes, in brackets.
func approvers(r *oncewardv1.Review) string {
	names := make([]string, len(r.GetApprovals()))
	for i, a := range r.GetApprovals() {
		names[i] = a.GetBy()
	}
	if len(names) == 0 {
		return ""
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// printDuplicate says why a request is a duplicate, where it is one.
func printDuplicate(w io.Writer, d *oncewardv1.Duplicate) {
	if d == nil {
		return
	}
	if d.GetCause() == oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED {
		fmt.Fprintf(w, "duplicate  %s\n", d.GetExplanation()) // it says that the cause is not known
		return
	}
	fmt.Fprintf(w, "duplicate  %s: %s\n", lower(d.GetCause().String(), "RETRY_CAUSE_"), d.GetExplanation())
}

// printPreview writes what would happen to a request, and why.
func printPreview(w io.Writer, p *oncewardv1.PreviewActionResponse) {
	fmt.Fprintln(w, p.GetExplanation())
	line := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, value)
		}
	}
	line("key", p.GetIdempotencyKey())
	line("amount", p.GetAmount()+" "+p.GetCurrency())
	line("rule", p.GetRule())
	line("policy", p.GetPolicyVersion())
	line("stage", lower(p.GetStage().String(), "STAGE_"))
	for _, b := range p.GetBudgets() {
		line("budget", fmt.Sprintf("%s of %s: %s of %s used, wants %s", b.GetBudget(), b.GetSubject(), b.GetUsed(), b.GetLimit(), b.GetWanted()))
	}
	line("intents", strings.Join(p.GetIntents(), ", "))
}

func printNextStep(w io.Writer, step *oncewardv1.NextStep) {
	if step == nil {
		return
	}
	fmt.Fprintf(w, "next step  %s: %s\n", lower(step.GetKind().String(), "NEXT_STEP_KIND_"), step.GetMessage())
}

// lower turns an enum's name into the word that people use.
func lower(name, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(name, prefix))
}

// printJSON writes a value as indented JSON.
func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// printTable writes rows in columns.
func printTable(w io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
