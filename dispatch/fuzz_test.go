package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Whatever an adapter returns, and however often it was tried: only a receipt
// confirms, only a proof that nothing was applied refuses or tries again, never one
// that came after a doubt, and the state machine has the move.
func FuzzVerdict(f *testing.F) {
	for i := range kinds() {
		f.Add(uint8(i), "re_1", []byte(`{"id":"re_1"}`), "code", "text", int64(time.Second), uint8(1), false, false)
		f.Add(uint8(i), "", []byte(nil), "", "", int64(-1), uint8(9), true, true)
	}
	f.Add(uint8(1), "\x00", []byte("\xff{"), "\x00", "\xed\xa0\x80", int64(1)<<62, uint8(3), false, true)
	states := []ledger.State{ledger.Running, ledger.Unknown}
	f.Fuzz(func(t *testing.T, kind uint8, reference string, receipt []byte, code, text string, after int64, attempt uint8, inDoubt, overtaken bool) {
		o := actions.Outcome{
			Kind:       append(kinds(), actions.Kind(-1), actions.Kind(200))[int(kind)%(len(kinds())+2)],
			Receipt:    actions.Receipt{Reference: reference, JSON: receipt},
			Failure:    actions.Failure{Code: code, Message: text, Evidence: text, Correctable: inDoubt != overtaken},
			RetryAfter: time.Duration(after),
		}
		cur := running(int(attempt), inDoubt)
		if overtaken {
			cur.State = states[attempt%2]
			cur.Attempt++
		}
		v := decide(cur, int(attempt), spec(), o)
		if v.change == nil {
			return
		}
		c := v.change
		proof := slices.Contains([]actions.Kind{actions.Rejected, actions.NotApplied, actions.RateLimited}, o.Kind)
		switch c.Event {
		case ledger.Confirm:
			if o.Kind != actions.Applied || reference == "" {
				t.Errorf("%s with reference %q is a success: %+v", o.Kind, reference, c)
			}
		case ledger.Refuse, ledger.Defer:
			if !proof || inDoubt {
				t.Errorf("%s, in doubt before: %t, leads to %s", o.Kind, inDoubt, c.Event)
			}
		}
		if c.Effect == ledger.EffectNotApplied && (!proof || inDoubt) {
			t.Errorf("%s, in doubt before: %t, has the effect %s", o.Kind, inDoubt, c.Effect)
		}
		if _, ok := ledger.Next(cur.State, c.Event); !ok && c.Event != "" {
			t.Errorf("%s from %s is no move", c.Event, cur.State)
		}
	})
}
