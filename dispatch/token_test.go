package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// mint makes tokens, or fails.
type mint struct {
	err      error
	audience string
	life     time.Duration
}

func (m *mint) Mint(_ ledger.Operation, audience string, life time.Duration) (string, error) {
	m.audience, m.life = audience, life
	return "s3cret", m.err
}

// sent is an adapter that keeps what it was called with.
type sent struct {
	actions.Adapter
	calls []actions.Call
}

func (s *sent) Execute(_ context.Context, call actions.Call) actions.Outcome {
	s.calls = append(s.calls, call)
	return outcome(actions.Applied)
}

func TestOperationTokens(t *testing.T) {
	for name, test := range map[string]struct {
		stage    ledger.Stage
		audience string
		tokens   Tokens
		sent     bool
		token    string
	}{
		"enforced":            {ledger.StageEnforce, "billing", &mint{}, true, "s3cret"},
		"no audience":         {ledger.StageEnforce, "", &mint{}, true, ""},
		"reconcile":           {ledger.StageReconcile, "billing", &mint{}, true, ""},
		"protect":             {ledger.StageProtect, "billing", &mint{}, true, ""},
		"from before stages":  {"", "billing", &mint{}, true, ""},
		"cannot be made":      {ledger.StageEnforce, "billing", &mint{err: errors.New("no key")}, false, ""},
		"nobody makes tokens": {ledger.StageEnforce, "billing", nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			d, err := New(Options{Ledger: &shaky{}, Secret: make([]byte, 32), Tokens: test.tokens, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Abandon()
			s := spec()
			s.TokenAudience, s.Timeout = test.audience, 20*time.Second
			adapter := &sent{}
			op := running(1, false)
			op.Stage = test.stage
			p := Prepared{action: &actions.Action{Spec: s, Adapter: adapter}, call: actions.Call{Tenant: "acme", OperationID: "op"}}
			got := d.execute(t.Context(), p, op, time.Now())
			d.logAttempt(op, got)
			if strings.Contains(log.String(), "s3cret") {
				t.Errorf("the token is logged: %s", log.String())
			}
			if !test.sent {
				if len(adapter.calls) != 0 || got.Kind != actions.NotApplied || got.Failure.Code != "no_operation_token" {
					t.Errorf("sent %+v, outcome %+v", adapter.calls, got)
				}
				if c := decide(op, 1, s, got).change; c == nil || c.Event != ledger.Defer {
					t.Errorf("not deferred: %+v", c)
				}
				return
			}
			if len(adapter.calls) != 1 || adapter.calls[0].OperationToken != test.token || got.Kind != actions.Applied {
				t.Fatalf("sent %+v, outcome %+v", adapter.calls, got)
			}
			if m, ok := test.tokens.(*mint); ok && test.token != "" && (m.audience != "billing" || m.life != s.Timeout) {
				t.Errorf("minted for %q and %s", m.audience, m.life)
			}
		})
	}
}

// TestSensitiveReceipts: however a receipt comes, it is stored without what is
// sensitive.
func TestSensitiveReceipts(t *testing.T) {
	s := spec()
	s.SensitiveReceipt = []string{"token"}
	o := outcome(actions.Applied)
	o.Receipt.JSON = json.RawMessage(`{"id":"re_1","token":"s3cret"}`)
	const want = `{"id":"re_1","token":"[redacted]"}`
	if c := decide(running(1, false), 1, s, o).change; c == nil || string(c.Receipt) != want {
		t.Errorf("settled: %+v", c)
	}
	late := running(1, false)
	late.State = ledger.Unknown
	if c := decide(late, 1, s, o).change; c == nil || string(c.Receipt) != want {
		t.Errorf("late: %+v", c)
	}
	o.Write = &actions.Statement{SQL: "SELECT"}
	for _, cur := range []ledger.Operation{running(1, false), late} {
		c := decide(cur, 1, s, o).change
		if c == nil || c.Write == nil || c.Write.Redact == nil || string(c.Write.Redact([]byte(`{"token":1}`))) != `{"token":"[redacted]"}` {
			t.Errorf("written: %+v", c)
		}
	}
	if c := decide(running(1, false), 1, spec(), o).change; c.Write.Redact != nil {
		t.Error("something is redacted where nothing is sensitive")
	}
}

func TestSensitiveReceiptsOfEvents(t *testing.T) {
	op := running(1, false)
	op.ActionType, op.State = "stub.thing.make", ledger.Unknown
	d, _ := reporting(t, &shaky{apply: []func(ledger.Change) (ledger.Operation, error){func(c ledger.Change) (ledger.Operation, error) {
		if string(c.Receipt) != `{"id":"re_1","token":"[redacted]"}` {
			t.Errorf("recorded %s", c.Receipt)
		}
		return c.Operation, nil
	}}})
	e := event(actions.Applied, "re_1")
	e.Outcome.Receipt.JSON = json.RawMessage(`{"id":"re_1","token":"s3cret"}`)
	if _, err := d.Report(t.Context(), op, Report{Provider: "stub", Event: e, Actor: "webhook"}); err != nil {
		t.Error(err)
	}
}
