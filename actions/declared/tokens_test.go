package declared

import (
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
)

// A late refusal of an old token does not drop the new one.
func TestDropOldToken(t *testing.T) {
	t.Parallel()
	now := newTick()
	s := &tokens{now: now.Now, known: map[string]*token{"": {value: "new", renewAt: now.now.Add(time.Minute)}}}
	s.drop("acme", "old")
	if value, ok := s.fresh(""); !ok || value != "new" {
		t.Errorf("%q, %t", value, ok)
	}
	s.drop("acme", "new")
	if value, ok := s.fresh(""); ok {
		t.Errorf("%q is still there", value)
	}
}

// A key that does not protect while the first request is under way is not sent a
// second time.
func TestKeysThatExecute(t *testing.T) {
	t.Parallel()
	k := &definition.Keys{Place: placeHeader, Name: "K", Window: definition.Duration(time.Hour), InFlight: "executes"}
	if got := keyRules(k); got != (actions.KeyRules{}) {
		t.Errorf("%+v", got)
	}
}
