package e2e

import (
	"fmt"
	"testing"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

// The provider applies and its answer does not come back whole: one effect, and
// the receipt all the same.
func TestLaw03_AnswersThatGetLost(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	faults := []fakeprovider.Fault{
		{Kind: fakeprovider.DropAnswerAfterApplying},
		{Kind: fakeprovider.DropAnswerAfterApplying, Reset: true},
		{Kind: fakeprovider.ErrorAfterApplying},
		{Kind: fakeprovider.HTML502, Apply: true},
		{Kind: fakeprovider.Redirect, Status: 302, Apply: true},
		{Kind: fakeprovider.Redirect, Status: 303, Apply: true},
		{Kind: fakeprovider.TruncateAnswer},
		{Kind: fakeprovider.TruncateAnswerChunked},
		{Kind: fakeprovider.TruncateAnswerUntilClose},
		{Kind: fakeprovider.MalformedJSON201},
		{Kind: fakeprovider.Empty201},
	}
	for _, act := range onProvider() {
		for i, fault := range faults {
			name := fmt.Sprintf("%s_%d_%s", act.name, i, fault)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				forRequest(w, name, fault)
				op := w.AskIn(t, r, act.request(name), succeeded).GetOperation()
				w.WantOneEffect(t, op.GetId())
				if i == 0 {
					// Doubt is resolved by the means of each kind of provider.
					want := map[string]string{"refund": "claim doubt replay confirm"}[act.name]
					if want == "" {
						want = "claim doubt confirm"
					}
					w.WantTrail(t, op.GetId(), want)
				}
				if w.Trail(t, op.GetId())[1] != string(ledger.Doubt) {
					t.Errorf("the lost answer left no doubt: %v", w.Trail(t, op.GetId()))
				}
			})
		}
	}
}

// The answer that gets lost is the ledger's own: the outcome was committed and
// nobody was told.
func TestLaw06_AnswerOfTheLedgerGetsLost(t *testing.T) {
	t.Parallel()
	for _, act := range everyAction() {
		t.Run(act.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{})
			r := w.Start(t, func(c *app.Config) {
				c.WrapLedger = func(l app.Ledger) app.Ledger { return &forgetful{Ledger: l} }
			})
			op := w.AskIn(t, r, act.request("lost"), succeeded).GetOperation()
			w.WantOneEffect(t, op.GetId())
			w.WantTrail(t, op.GetId(), "claim confirm")
			wantSound(t, w)
		})
	}
}
