package e2e

import (
	"testing"

	"github.com/onceward/onceward/internal/apptest"
)

// A completed operation is delivered again a hundred times, also after a
// restart: the same receipt, and nothing changes.
func TestLaw06_DeliveredAHundredTimes(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	for _, act := range everyAction() {
		first := w.Start(t, nil)
		req := act.request("again_" + act.name)
		original := w.AskIn(t, first, req, succeeded)
		op := w.Held(t, original.GetOperation().GetId())
		row, sent := w.Database.Row(t, op), len(w.Provider.Requests())

		answers := crowd(t, w, 50, req, first)
		first.Stop()
		answers = append(answers, crowd(t, w, 50, req, w.Start(t, nil))...)
		for i, got := range answers {
			if got.err == nil && !got.resp.GetReplayed() {
				t.Errorf("%s: delivery %d is no replay: %s", act.name, i, got.resp.GetDisposition())
			}
		}
		wantOneReceipt(t, w, append(answers, answer{resp: original}), 1)
		if now := w.Database.Row(t, op); now != row {
			t.Errorf("%s: the row was\n%s\nand is now\n%s", act.name, row, now)
		}
		if n := len(w.Provider.Requests()); n != sent {
			t.Errorf("%s: %d more requests went to the provider", act.name, n-sent)
		}
		w.WantTrail(t, op.ID, "claim confirm")
		w.WantOneEffect(t, op.ID)
	}
	wantSound(t, w)
}

// A failure is delivered again too, as it was.
func TestLaw06_FailureDeliveredAgain(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	req := refund().request("missing_1") // the charge is ch_missing_1
	original := w.AskIn(t, r, req, failed)
	for range 10 {
		resp := w.AskIn(t, r, req, failed)
		if !resp.GetReplayed() || resp.GetOperation().GetFailure().String() != original.GetOperation().GetFailure().String() {
			t.Fatalf("the failure changed: %v, was %v", resp, original)
		}
	}
	if n := writes(w, ""); n != 1 {
		t.Errorf("%d writes, want 1; %s", n, w.Describe())
	}
	w.WantTrail(t, original.GetOperation().GetId(), "claim refuse")
	wantSound(t, w)
}
