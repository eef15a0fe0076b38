package demo_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is the adapters on a fake provider that a test can spoil.
type bench struct {
	t        *testing.T
	provider *fakeprovider.Provider
	server   *fakeprovider.Server
	clock    *fakeprovider.ManualClock
	registry *actions.Registry
}

func start(t *testing.T, o fakeprovider.Options) *bench {
	t.Helper()
	clock := fakeprovider.NewManualClock(time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC))
	o.Clock = clock
	p := fakeprovider.New(o)
	server, err := fakeprovider.Start(p, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	adapters, err := demo.New(demo.Options{ProviderURL: server.URL(), Token: fakeprovider.DefaultToken, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := actions.NewRegistry(adapters...)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, provider: p, server: server, clock: clock, registry: registry}
}

func (b *bench) action(name string) *actions.Action {
	b.t.Helper()
	a, ok := b.registry.Get(name)
	if !ok {
		b.t.Fatalf("action type %s is not registered", name)
	}
	return a
}

// sample is one valid call of each action type.
type sample struct {
	action, arguments, naturalKey string
}

var (
	refund  = sample{"payments.refund.create", `{"charge_id":"ch_1","amount":1200,"currency":"usd","reason":"asked"}`, fakeprovider.RefundOf("ch_1")}
	invoice = sample{"email.invoice.send", `{"to":"dana@example.test","invoice_id":"inv_1","revision":2}`, fakeprovider.MailOf("dana@example.test", "inv_1", 2)}
	contact = sample{"crm.contact.create", `{"email":"dana@example.test","name":"Dana Reyes"}`, fakeprovider.ContactOf("dana@example.test")}
)

func (s sample) call(t *testing.T, operation string) actions.Call {
	t.Helper()
	args, err := actions.ParseArguments([]byte(s.arguments))
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{Tenant: "acme", OperationID: operation, ProviderKey: "key0123456789abcdefghij-" + operation, Arguments: args}
}

func (b *bench) execute(s sample, operation string) actions.Outcome {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	return b.action(s.action).Adapter.Execute(ctx, s.call(b.t, operation))
}

func (b *bench) lookup(s sample, operation, reference string) actions.Finding {
	b.t.Helper()
	looker, ok := b.action(s.action).Adapter.(actions.Looker)
	if !ok {
		b.t.Fatalf("%s has no look-up", s.action)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	return looker.Lookup(ctx, actions.Query{Call: s.call(b.t, operation), ProviderReference: reference})
}

func (b *bench) wantEffects(s sample, n int) {
	b.t.Helper()
	if got := b.provider.EffectsOn(s.naturalKey); len(got) != n {
		b.t.Errorf("the target holds %d effects, want %d: %+v", len(got), n, got)
	}
}
