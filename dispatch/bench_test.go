package dispatch

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// prompt is an adapter that is done at once.
type prompt struct{}

func (prompt) Spec() actions.Spec {
	return actions.Spec{
		Type: "pay.charge", Version: "1", Schema: json.RawMessage(`{"type":"object"}`),
		Contract: actions.Contract{Provider: "fakepay", Version: "1", Keys: actions.KeyRules{Honoured: true, Window: 24 * time.Hour, Margin: time.Hour}},
	}
}

func (prompt) Validate(actions.Arguments) error { return nil }

func (prompt) Execute(context.Context, actions.Call) actions.Outcome {
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: "re_1", JSON: json.RawMessage(`{"id":"re_1"}`)}}
}

// inMemory is a ledger that takes what is proved.
type inMemory struct{ Ledger }

func (inMemory) Apply(_ context.Context, c ledger.Change) (ledger.Operation, error) {
	op := c.Operation
	op.State, op.Effect, op.ProviderReference, op.Receipt = ledger.Succeeded, c.Effect, c.ProviderReference, c.Receipt
	return op, nil
}

// BenchmarkDispatch is what a new operation costs here, from its provider key to
// its receipt, without the ledger and the provider.
func BenchmarkDispatch(b *testing.B) {
	registry, err := actions.NewRegistry(prompt{})
	if err != nil {
		b.Fatal(err)
	}
	settled := make(chan ledger.State, 1)
	d, err := New(Options{
		Ledger: inMemory{}, Registry: registry, Secret: make([]byte, 32),
		Log:     slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Changed: func(op ledger.Operation) { settled <- op.State },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Abandon()
	action, _ := registry.Get("pay.charge")
	args, err := actions.ParseArguments([]byte(`{"charge_id":"ch_3PqLx2eZvKYlo2C","amount":4900,"currency":"usd","reason":"requested_by_customer"}`))
	if err != nil {
		b.Fatal(err)
	}
	prepare := func() Prepared {
		p, err := d.Prepare(action, "acme", "0197b3c0-0000-7000-8000-000000000000", 0, args)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	op := ledger.Operation{
		Tenant: "acme", ID: "0197b3c0-0000-7000-8000-000000000000", ActionType: "pay.charge", State: ledger.Running, Attempt: 1,
		Run: ledger.Run{RunID: "run", StepID: "step", TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}
	run := func(p Prepared) {
		if err := d.Admit("acme", action); err != nil {
			b.Fatal(err)
		}
		release, err := d.Reserve("fakepay")
		if err != nil {
			b.Fatal(err)
		}
		d.Go(p, op, time.Now(), release)
		if state := <-settled; state != ledger.Succeeded {
			b.Fatal(state)
		}
	}
	b.Run("prepare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			prepare()
		}
	})
	b.Run("attempt", func(b *testing.B) {
		p := prepare()
		b.ReportAllocs()
		for b.Loop() {
			run(p)
		}
	})
}
