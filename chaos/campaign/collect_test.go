package campaign

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/chaos/judge"
)

// The budget's counter is held against the money, also where nobody counted.
func TestCounted(t *testing.T) {
	t.Parallel()
	effects := []judge.Effect{{Tenant: acme, Cents: 300}, {Tenant: globex, Cents: 500}, {Tenant: acme, Cents: 200}}
	open := judge.Budget{Tenant: acme, Counter: "at-once", Held: 1}
	got := counted([]judge.Budget{open, {Tenant: acme, Counter: budgetID, Used: 400}}, effects)
	if want := []judge.Budget{open, {Tenant: acme, Counter: budgetID, Used: 400, Want: 500}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = counted([]judge.Budget{open}, effects)
	if want := []judge.Budget{open, {Tenant: acme, Counter: budgetID, Want: 500}}; !slices.Equal(got, want) {
		t.Errorf("without a counter: %+v, want %+v", got, want)
	}
	if got = counted(nil, nil); len(got) != 0 {
		t.Errorf("without money: %+v", got)
	}
}
