package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// guarded is a gate whose log is kept.
func guarded(rules actions.Protection) (*gate, *strings.Builder) {
	var out strings.Builder
	return newGate("fakepay", rules.WithDefaults(), slog.New(slog.NewTextHandler(&out, nil))), &out
}

// send makes one attempt of a new operation that ends so, and returns what
// became of it.
func (g *gate) send(o actions.Outcome) actions.Outcome {
	return g.through(ledger.Operation{Attempt: 1}, func() actions.Outcome { return o })
}

func kind(k actions.Kind) actions.Outcome { return actions.Outcome{Kind: k} }

func unreached() actions.Outcome { return actions.Outcome{Kind: actions.NotApplied, Unreached: true} }

func TestCircuit(t *testing.T) {
	t.Parallel()
	const (
		applied, rejected, limited = actions.Applied, actions.Rejected, actions.RateLimited
		ambiguous, notApplied      = actions.Ambiguous, actions.NotApplied
	)
	for _, c := range []struct {
		name  string
		after []actions.Outcome // with three failures in a row allowed
		open  bool
	}{
		{"nothing", nil, false},
		{"two in a row", []actions.Outcome{kind(ambiguous), unreached()}, false},
		{"three in a row", []actions.Outcome{kind(ambiguous), unreached(), kind(ambiguous)}, true},
		{"what an adapter makes up", []actions.Outcome{kind(99), kind(99), kind(99)}, true},
		{"an answer between", []actions.Outcome{kind(ambiguous), kind(ambiguous), kind(rejected), kind(ambiguous)}, false},
		{"a success between", []actions.Outcome{kind(ambiguous), kind(ambiguous), kind(applied), kind(ambiguous)}, false},
		{"a rate limit proves nothing", []actions.Outcome{kind(ambiguous), kind(ambiguous), kind(limited), kind(ambiguous)}, true},
		{"refusals", []actions.Outcome{kind(rejected), kind(rejected), kind(rejected), kind(rejected)}, false},
		{"rate limits", []actions.Outcome{kind(limited), kind(limited), kind(limited), kind(limited)}, false},
		{"proofs of nothing", []actions.Outcome{kind(notApplied), kind(notApplied), kind(notApplied), kind(notApplied)}, false},
		{"doubts with an answer", []actions.Outcome{kind(actions.Accepted), kind(actions.InProgress), kind(actions.MaybeOurs), kind(actions.KeyMismatch)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g, _ := guarded(actions.Protection{Failures: 3})
			for _, o := range c.after {
				g.send(o)
			}
			if err := g.admit(); (err != nil) != c.open {
				t.Errorf("admit: %v, want open: %v", err, c.open)
			}
		})
	}
}

// An open circuit refuses, lets one attempt through in its time, and closes with
// the first answer.
func TestOpenCircuitLetsOneThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := guarded(actions.Protection{Failures: 2, OpenFor: time.Minute})
		g.send(kind(actions.Ambiguous))
		g.send(kind(actions.Ambiguous))

		time.Sleep(20 * time.Second)
		var open *ProviderOpenError
		if err := g.admit(); !errors.As(err, &open) || open.Provider != "fakepay" || open.RetryAfter != 40*time.Second {
			t.Fatalf("admitted: %v", err)
		}
		sent := false
		held := g.through(ledger.Operation{Attempt: 1}, func() actions.Outcome { sent = true; return kind(actions.Applied) })
		if sent || held.Kind != actions.RateLimited || held.RetryAfter != 40*time.Second || held.Failure.Code != "provider_open" {
			t.Errorf("sent: %v, held back as %+v", sent, held)
		}

		time.Sleep(41 * time.Second)
		g.send(kind(actions.RateLimited)) // says nothing: the next one tries
		trying, answer := make(chan struct{}), make(chan actions.Kind)
		go g.through(ledger.Operation{Attempt: 1}, func() actions.Outcome { close(trying); return kind(<-answer) })
		<-trying
		if err := g.admit(); !errors.As(err, &open) || open.RetryAfter != tryAgain {
			t.Errorf("a second one was admitted: %v", err)
		}
		if o := g.send(kind(actions.Applied)); o.Kind != actions.RateLimited {
			t.Errorf("a second one was sent: %+v", o)
		}
		answer <- actions.Ambiguous
		synctest.Wait()
		if err := g.admit(); !errors.As(err, &open) || open.RetryAfter != time.Minute {
			t.Errorf("after a try that failed: %v", err)
		}

		time.Sleep(61 * time.Second)
		if err := g.admit(); err != nil {
			t.Errorf("not tried again: %v", err)
		}
		g.send(kind(actions.Rejected))
		if err := g.admit(); err != nil {
			t.Errorf("after an answer: %v", err)
		}
		for _, line := range []string{"does not answer", "tried with one attempt", "answers again"} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("the log lacks %q:\n%s", line, log)
			}
		}
	})
}

func TestRetryBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, log := guarded(actions.Protection{RetryFloor: 3, RetryShare: 10})
		deferred := ledger.Operation{Attempt: 1, Reason: actions.NotApplied.String()}
		takes := func(event ledger.Event, op ledger.Operation) bool {
			_, err := g.again(op, event)
			var spent *RetryBudgetError
			if err != nil && !errors.As(err, &spent) {
				t.Fatal(err)
			}
			return err == nil
		}
		for i := range 3 {
			if !takes(ledger.Claim, deferred) {
				t.Fatalf("retry %d below the floor was refused", i+1)
			}
		}
		if takes(ledger.Claim, deferred) || takes(ledger.Replay, ledger.Operation{Attempt: 1, Reason: ReasonAmbiguous}) {
			t.Error("retries beyond the floor were let through")
		}
		if !takes(ledger.Claim, ledger.Operation{}) {
			t.Error("a first attempt was taken for a retry")
		}
		if !takes(ledger.Claim, ledger.Operation{Attempt: 1, Reason: actions.RateLimited.String()}) {
			t.Error("who was turned away by a rate limit does not get its turn")
		}
		if got := strings.Count(log.String(), "retry budget"); got != 1 {
			t.Errorf("%d lines in the log, want 1:\n%s", got, log)
		}

		time.Sleep(30 * time.Second)
		for range 50 {
			g.send(kind(actions.Applied))
		}
		took := 0
		for range 10 {
			if takes(ledger.Claim, deferred) {
				took++
			}
		}
		if took != 2 {
			t.Errorf("50 first attempts make place for %d retries, want 5", 3+took)
		}
		_, err := g.again(deferred, ledger.Claim)
		if wait, ok := Later(err); !ok || wait < time.Second || wait > 10*time.Second {
			t.Errorf("asks to wait for %s, %v", wait, ok)
		}

		time.Sleep(31 * time.Second) // the first three are forgotten
		if !takes(ledger.Claim, deferred) {
			t.Error("retries of a minute ago still count")
		}
		time.Sleep(time.Minute)
		giveBack, err := g.again(deferred, ledger.Claim)
		if err != nil {
			t.Fatal(err)
		}
		giveBack()
		for i := range 3 {
			if !takes(ledger.Claim, deferred) {
				t.Errorf("retry %d was refused: the one given back still counts", i+1)
			}
		}
	})
}

func TestProtectionIsOfAProvider(t *testing.T) {
	t.Parallel()
	all := newGates(slog.New(slog.DiscardHandler))
	one := actions.Contract{Provider: "one", Protection: actions.Protection{Failures: 1}}
	other := actions.Contract{Provider: "other", Protection: actions.Protection{Failures: 1}}
	all.of("acme", one).send(kind(actions.Ambiguous))
	if all.of("acme", one).admit() == nil || all.of("acme", other).admit() != nil {
		t.Error("the circuit of a provider is not its own")
	}
	one.Version = "2"
	if all.of("acme", one).admit() == nil {
		t.Error("another version of the contract has a circuit of its own")
	}
}

// scripted is an adapter that answers as a test says.
type scripted struct {
	answers []actions.Outcome
	sent    int
}

func (*scripted) Spec() actions.Spec {
	return actions.Spec{
		Type: "pay.charge", Version: "1", Schema: json.RawMessage(`{"type":"object"}`), MaxAttempts: 5,
		SensitiveArgs: []string{"card"},
		Contract:      actions.Contract{Provider: "fakepay", Version: "1", Protection: actions.Protection{Failures: 2, OpenFor: time.Minute, RetryFloor: 3}},
	}
}

func (*scripted) Validate(actions.Arguments) error { return nil }

func (s *scripted) Execute(context.Context, actions.Call) actions.Outcome {
	s.sent++
	if len(s.answers) == 0 {
		return kind(actions.Ambiguous)
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next
}

// counting is a ledger that takes every claim and counts them.
type counting struct {
	Ledger
	claims int
	fenced bool
}

func (c *counting) Arguments(context.Context, ledger.Operation) ([]byte, error) { return nil, nil }

func (c *counting) Start(_ context.Context, claim ledger.Claiming) (ledger.Operation, error) {
	if c.fenced {
		return ledger.Operation{}, ledger.ErrFenced
	}
	c.claims++
	op := claim.Operation
	op.State, op.Attempt = ledger.Running, op.Attempt+1
	return op, nil
}

func (c *counting) Apply(_ context.Context, change ledger.Change) (ledger.Operation, error) {
	return change.Operation, nil
}

type unsealed struct{}

func (unsealed) Unseal([]byte, string, string) ([]byte, error) { return []byte(`{}`), nil }

// Attempts that must wait are not claimed, let alone sent; one that the ledger
// fences off gives its place back.
func TestAttemptsWaitForTheirProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		adapter, store := &scripted{}, &counting{}
		registry, err := actions.NewRegistry(adapter)
		if err != nil {
			t.Fatal(err)
		}
		d, err := New(Options{Ledger: store, Registry: registry, Sealer: unsealed{}, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Abandon()
		action, _ := registry.Get("pay.charge")
		op := ledger.Operation{
			Tenant: "acme", ID: NewID(), ActionType: "pay.charge", AdapterVersion: "1", ContractVersion: "1",
			State: ledger.Pending, Attempt: 1, Reason: actions.NotApplied.String(),
		}
		attempt := func() error {
			_, err := d.Attempt(t.Context(), op, ledger.Claim, worker)
			return err
		}
		store.fenced = true
		for range 10 {
			if err := attempt(); !errors.Is(err, ledger.ErrFenced) {
				t.Fatal(err)
			}
		}
		store.fenced = false

		adapter.answers = []actions.Outcome{kind(actions.NotApplied)}
		for range 3 {
			if err := attempt(); err != nil {
				t.Fatal(err)
			}
		}
		var open *ProviderOpenError
		if err := attempt(); !errors.As(err, &open) {
			t.Errorf("after two failures in a row: %v", err)
		}
		if err := d.Admit("acme", action); !errors.As(err, &open) {
			t.Errorf("admitted: %v", err)
		}
		if err := d.Admit("globex", action); err != nil {
			t.Errorf("another tenant is stopped: %v", err)
		}
		if store.claims != 3 || adapter.sent != 3 {
			t.Errorf("%d claims and %d sent, want 3 and 3", store.claims, adapter.sent)
		}

		time.Sleep(70 * time.Second) // the retries are forgotten, and the circuit may be tried
		adapter.answers = []actions.Outcome{kind(actions.Applied), kind(actions.Applied), kind(actions.Applied)}
		for range 3 {
			if err := attempt(); err != nil {
				t.Error(err)
			}
		}
		var spent *RetryBudgetError
		if err := attempt(); !errors.As(err, &spent) {
			t.Errorf("beyond the budget: %v", err)
		}
		if err := d.Admit("acme", action); err != nil {
			t.Errorf("a new operation does not retry: %v", err)
		}
		if store.claims != 6 || adapter.sent != 6 {
			t.Errorf("%d claims and %d sent, want 6 and 6", store.claims, adapter.sent)
		}
	})
}

// remembering is a ledger that keeps what it is told.
type remembering struct {
	counting
	changes []ledger.Change
}

func (r *remembering) Apply(ctx context.Context, change ledger.Change) (ledger.Operation, error) {
	r.changes = append(r.changes, change)
	return r.counting.Apply(ctx, change)
}

type sealedCard struct{}

func (sealedCard) Unseal([]byte, string, string) ([]byte, error) {
	return []byte(`{"card":"4000056655665556"}`), nil
}

// What a provider repeats of sensitive arguments is neither logged nor stored.
func TestFailuresRepeatNothingSensitive(t *testing.T) {
	t.Parallel()
	const card = "4000056655665556"
	store, log := &remembering{}, &strings.Builder{}
	registry, err := actions.NewRegistry(&scripted{answers: []actions.Outcome{{Kind: actions.Rejected, Failure: actions.Failure{
		Code: "bad_card", Message: "No such card " + card + ".", Evidence: "HTTP 400: " + card,
		Violations: []actions.Violation{{Field: "card", Message: card + " is no card"}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Ledger: store, Registry: registry, Sealer: sealedCard{}, Secret: make([]byte, 32), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Abandon()
	op := ledger.Operation{Tenant: "acme", ID: NewID(), ActionType: "pay.charge", AdapterVersion: "1", ContractVersion: "1", State: ledger.Pending}
	if _, err := d.Attempt(t.Context(), op, ledger.Claim, worker); err != nil {
		t.Fatal(err)
	}
	if len(store.changes) != 1 {
		t.Fatalf("%d changes", len(store.changes))
	}
	c := store.changes[0]
	stored, err := json.Marshal([]any{c.Failure, c.Detail, c.Reason, string(c.Receipt)})
	if err != nil || !strings.Contains(string(stored), actions.Redacted) {
		t.Errorf("stored %s, %v", stored, err)
	}
	for where, text := range map[string]string{"ledger": string(stored), "log": log.String()} {
		if strings.Contains(text, card) {
			t.Errorf("the %s has the card: %s", where, text)
		}
	}
}
