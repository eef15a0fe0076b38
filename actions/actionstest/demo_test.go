package actionstest_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/actionstest"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/proof"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// The demo's adapters by their place in demo.New, with an example each.
const (
	refund = iota
	invoice
	contact
	note
)

func example(action int) json.RawMessage {
	return []json.RawMessage{
		json.RawMessage(`{"charge_id":"ch_1","amount":4900,"currency":"usd","reason":"asked"}`),
		json.RawMessage(`{"to":"dana@example.test","invoice_id":"inv_1","revision":2}`),
		json.RawMessage(`{"email":"dana@example.test","name":"Dana Reyes"}`),
		json.RawMessage(`{"subject":"inv_1","body":"paid"}`),
	}[action]
}

// subject is a demo adapter on a fake provider.
func subject(action int, o demo.Options, p fakeprovider.Options) proof.Subject {
	return proof.Subject{
		Arguments: example(action),
		Secrets:   []string{fakeprovider.DefaultToken},
		Open: func(context.Context, proof.Env) (actions.Adapter, proof.Target, error) {
			fake, err := proof.StartFake(p)
			if err != nil {
				return nil, nil, err
			}
			at := o
			at.ProviderURL, at.Token = fake.URL(), fakeprovider.DefaultToken
			adapters, err := demo.New(at)
			if err != nil {
				return nil, nil, err
			}
			return adapters[action], fake, nil
		},
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]proof.Subject{
		"refund, failures are stored": subject(refund, demo.Options{StoresFailures: true}, fakeprovider.Options{StoreFailures: true}),
		"contact":                     subject(contact, demo.Options{}, fakeprovider.Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actionstest.Run(t, s)
		})
	}
}

// TestOwnAnswers: an answer of the provider's own is a path, after the others.
func TestOwnAnswers(t *testing.T) {
	t.Parallel()
	s := subject(invoice, demo.Options{}, fakeprovider.Options{SearchLag: proof.LookupLag})
	s.Answers = []proof.Answer{{
		Name: "strange", Title: "an answer that nobody knows, after applying",
		Fault: fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: "strange", Apply: true},
	}}
	report := actionstest.Report(t, s)
	wantProved(t, report)
	last := report.Paths[len(report.Paths)-1]
	if last.Path != "answer-strange" || last.Verdict != proof.Safe || last.Effects != 1 || last.Writes != 1 || last.Lookups == 0 {
		t.Errorf("got %+v", last)
	}
}

func wantProved(t *testing.T, report proof.SubjectReport) {
	t.Helper()
	if report.Failures() == 0 {
		return
	}
	for _, p := range report.Paths {
		if p.Verdict.Failed() {
			t.Errorf("%s: %s: %s; %s", p.Path, p.Verdict, p.Detail, counted(p))
		}
	}
	t.Errorf("dangers %+v", report.Dangers)
}

// reused is a target that is not ended, but emptied, between two paths.
type reused struct{ *proof.Fake }

func (reused) Close() error { return nil }

// TestSerial: one adapter and one provider are enough, path after path.
func TestSerial(t *testing.T) {
	t.Parallel()
	s := subject(refund, demo.Options{}, fakeprovider.Options{})
	adapter, target, err := s.Open(t.Context(), proof.Env{})
	if err != nil {
		t.Fatal(err)
	}
	fake, _ := target.(*proof.Fake)
	t.Cleanup(func() {
		if err := fake.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Serial = true
	s.Open = func(context.Context, proof.Env) (actions.Adapter, proof.Target, error) {
		fake.Provider.Reset()
		return adapter, reused{fake}, nil
	}
	db := ledgertest.NewDatabase(t)
	walked := []string{"plain", "repeated", "drop-fin", "horizon-passed", "unreachable", "killed-before-sending"}
	report, err := proof.Run(t.Context(), proof.Options{
		OwnerURL: db.OwnerURL, ServeURL: db.ServeURL, Subjects: []proof.Subject{s},
		Select: func(path string) bool { return slices.Contains(walked, path) },
	})
	if err != nil {
		t.Fatal(err)
	}
	wantProved(t, report.Subjects[0])
	for i, p := range report.Subjects[0].Paths {
		if p.Path != walked[i] || p.Verdict != proof.Safe || p.Effects != 1 {
			t.Errorf("path %d: %+v", i, p)
		}
	}
}
