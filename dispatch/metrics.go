package dispatch

import (
	"time"

	"github.com/onceward/onceward/ledger"
)

// Why an attempt was put off by this side.
const (
	HeldByCircuit     = "circuit"      // the provider does not answer others
	HeldByRetryBudget = "retry_budget" // enough further attempts went to it
	HeldForPlace      = "busy"         // as many attempts are under way as may be
)

// Metrics is told what happens to attempts. It must be safe for concurrent use and
// not block.
type Metrics interface {
	// Attempted is told of a provider call that has come back, and the name of what
	// its answer proved.
	Attempted(tenant, actionType, provider, outcome string, took time.Duration)
	// HeldBack is told of an attempt that was not begun, and why.
	HeldBack(provider, reason string)
	// Overtaken is told of a result that came after somebody else had moved its
	// operation on.
	Overtaken(tenant, actionType string)
	// FoundMade is told of a change whose answer was lost, and that was made: now is
	// the operation as it was found.
	FoundMade(c ledger.Change, now ledger.Operation)
}

// unmeasured is nobody who measures.
type unmeasured struct{}

func (unmeasured) Attempted(string, string, string, string, time.Duration) {}
func (unmeasured) HeldBack(string, string)                                 {}
func (unmeasured) Overtaken(string, string)                                {}
func (unmeasured) FoundMade(ledger.Change, ledger.Operation)               {}

// held counts an attempt that the gate of its provider put off.
func (d *Dispatcher) held(provider string, err error) {
	switch err.(type) { //nolint:errorlint // gates return these as they are
	case *ProviderOpenError:
		d.Metrics.HeldBack(provider, HeldByCircuit)
	case *RetryBudgetError:
		d.Metrics.HeldBack(provider, HeldByRetryBudget)
	}
}

// InFlight is how many attempts have a place: from before their claim until they
// are settled. limit is how many may.
func (d *Dispatcher) InFlight() (now, limit int) { return len(d.slots), cap(d.slots) }

// Circuits tells each provider of each tenant that was used lately, and whether it
// is open: nothing is sent to the provider. Where its rules have changed it is told
// once for each of them.
func (d *Dispatcher) Circuits(each func(tenant, provider string, open bool)) {
	for _, known := range d.gates.list() {
		each(known.tenant, known.gate.provider, known.gate.isOpen())
	}
}
