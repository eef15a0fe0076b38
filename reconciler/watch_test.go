package reconciler

import (
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// A watch ends when its time is over, unless what it found is not on record: then it
// comes up again, with the operation as somebody else left it.
func TestWatchEndsWithWhatItFound(t *testing.T) {
	t.Parallel()
	effect := actions.Finding{Kind: actions.Found, Receipt: actions.Receipt{Reference: "re_1", JSON: []byte(`{}`)}}
	for name, test := range map[string]struct {
		finding       actions.Finding
		fenced        bool
		changes, ends int
	}{
		"nothing landed":                      {actions.Finding{Kind: actions.Absent}, false, 0, 1},
		"an effect landed":                    {effect, false, 1, 1},
		"an effect landed, somebody moved it": {effect, true, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &book{fenced: test.fenced}
			r := repairing(b, &desk{action: &actions.Action{Spec: actions.Spec{}.WithDefaults(), Adapter: finds{finding: test.finding}}})
			failed := ledger.Operation{Tenant: "acme", ActionType: "fake.thing", State: ledger.Failed, Effect: ledger.EffectNotApplied, Attempt: 1}
			if err := r.Work(t.Context(), failed); err != nil {
				t.Fatalf("to be overtaken is no error: %v", err)
			}
			if len(b.changes) != test.changes || b.ended != test.ends {
				t.Errorf("tried %d changes and ended %d watches, want %d and %d: %+v", len(b.changes), b.ended, test.changes, test.ends, b.changes)
			}
			for _, c := range b.changes {
				if c.Event != ledger.Contradict || c.Effect != ledger.EffectApplied {
					t.Errorf("tried %s with effect %s", c.Event, c.Effect)
				}
			}
		})
	}
}
