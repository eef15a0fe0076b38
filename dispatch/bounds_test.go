package dispatch

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// A hundred thousand tenants whose provider failed each once do not stay for ever;
// one whose circuit is open now is not forgotten.
func TestGatesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGates(slog.New(slog.DiscardHandler))
		contract := actions.Contract{Provider: "p"}
		fail := func(tenant string) {
			g.of(tenant, contract).through(ledger.Operation{}, func() actions.Outcome { return actions.Outcome{} })
		}
		for i := range 100_000 {
			fail(fmt.Sprint("t", i))
			if i%100 == 0 {
				time.Sleep(time.Minute) // of the bubble
			}
			if len(g.all) > 2*keptGates {
				t.Fatalf("%d gates after %d tenants", len(g.all), i)
			}
		}
		for range 50 {
			fail("broken")
		}
		for i := range 2 * keptGates {
			g.of(fmt.Sprint("u", i), contract)
		}
		if g.of("broken", contract).admit() == nil {
			t.Error("an open circuit was forgotten")
		}
	})
}
