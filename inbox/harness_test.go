package inbox_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/actions/webhook"
	"github.com/onceward/onceward/inbox"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger/postgres"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(func() int { return pgtest.Main(m) })) }

const secret = "whsec_b25lIHNlY3JldCBvZiB0aGUgd2hvbGUgdGVzdA=="

// mail is the source of the fake mail provider: Standard Webhooks, an event
// {"id", "type", "operation", "object"}, one secret for all tenants.
type mail struct{ verifier *webhook.Verifier }

func (mail) Provider() string { return "fakemail" }

func (s mail) Events(_ string, m actions.Message, now time.Time) ([]actions.Event, error) {
	if err := s.verifier.Verify([][]byte{[]byte(secret)}, m, now); err != nil {
		return nil, err
	}
	var said mailEvent
	if err := json.Unmarshal(m.Body, &said); err != nil {
		return nil, fmt.Errorf("%w: %w", actions.ErrMalformed, err)
	}
	e := actions.Event{ID: said.ID, OperationID: said.Operation, Reference: said.Reference, Detail: said.Type}
	switch said.Type {
	case "sent":
		e.Outcome = actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{JSON: fmt.Appendf(nil, `{"id":%q}`, said.Reference)}}
	case "failed":
		e.Outcome = actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "bounced", Message: "The mail came back.", Correctable: true}}
	case "queued":
		e.Outcome = actions.Outcome{Kind: actions.Accepted}
	}
	return []actions.Event{e}, nil
}

type mailEvent struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Operation string `json:"operation"`
	Reference string `json:"reference"`
}

// deaf is an adapter whose answers can get lost, without a look-up: only the
// provider's own event can tell.
type deaf struct{ actions.Adapter }

func (d deaf) Spec() actions.Spec {
	spec := d.Adapter.Spec()
	spec.Type = "test.invoice.send"
	spec.Contract.Lookup = actions.LookupRules{}
	spec.Contract.EventWait = time.Hour
	return spec
}

// job is an adapter of the same provider that answers as it is told.
type job struct {
	typ    string
	answer func(actions.Call) actions.Outcome
	find   func(actions.Query) actions.Finding
}

func (j job) Spec() actions.Spec {
	return actions.Spec{
		Type: j.typ, Version: "1", Schema: json.RawMessage(`{"type":"object"}`), Timeout: apptest.Patience,
		Contract: actions.Contract{
			Provider: "fakemail", Version: "1", EventWait: time.Hour,
			Lookup: actions.LookupRules{ReadGap: 10 * time.Millisecond},
		},
	}
}
func (job) Validate(actions.Arguments) error { return nil }
func (j job) Execute(_ context.Context, c actions.Call) actions.Outcome {
	return j.answer(c)
}

// findingJob is a job that can be looked up.
type findingJob struct{ job }

func (j findingJob) Lookup(_ context.Context, q actions.Query) actions.Finding { return j.find(q) }

// hall is a world with an inbox before it, which has a store of its own.
type hall struct {
	*apptest.World
	store *postgres.Store
	url   string
}

func newHall(t *testing.T, adapters ...actions.Adapter) *hall {
	t.Helper()
	w := apptest.New(t, apptest.Options{Demo: demo.Options{Timeout: apptest.Patience}})
	made, err := demo.New(w.Options.Demo)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range made {
		if a.Spec().Type == "email.invoice.send" {
			w.Adapters = append(w.Adapters, deaf{a})
		}
	}
	w.Adapters = append(w.Adapters, adapters...)
	verifier, err := webhook.New(webhook.Rules{Scheme: webhook.Standard})
	if err != nil {
		t.Fatal(err)
	}
	store := w.Database.Open(t)
	b, err := inbox.New(inbox.Options{
		Ledger: store, Sensitive: nothingSensitive, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Source: func(_, provider string) actions.Source {
			if provider == "fakemail" {
				return mail{verifier}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return &hall{w, store, server.URL}
}

// hear sends an event to a tenant's address, signed with a secret, and returns
// what is answered.
func (h *hall) hear(t *testing.T, tenant, with string, e mailEvent) reply {
	t.Helper()
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(with, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", e.ID, at, body)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/webhooks/"+tenant+"/fakemail", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("webhook-id", e.ID)
	req.Header.Set("webhook-timestamp", at)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return do(t, req)
}

// tell sends a good event to acme that must be new.
func (h *hall) tell(t *testing.T, e mailEvent) {
	t.Helper()
	if got := h.hear(t, "acme", secret, e); got.body != `{"stored":1}` {
		t.Fatalf("event %+v was answered %+v", e, got)
	}
}

// note waits until an event of a tenant was weighed, and returns what came of it.
func (h *hall) note(t *testing.T, tenant, id string) string {
	t.Helper()
	conn := h.Database.Owner(t)
	var note string
	apptest.Eventually(t, func() bool {
		err := conn.QueryRow(t.Context(), `SELECT coalesce(max(note), '') FROM webhook_inbox WHERE tenant_id = $1 AND event_id = $2 AND processed_at IS NOT NULL`, tenant, id).Scan(&note)
		if err != nil {
			t.Fatal(err)
		}
		return note != ""
	}, func() string { return "event " + id + " is not weighed" })
	return note
}

// looked waits until an event was looked at in vain.
func (h *hall) looked(t *testing.T, id string) {
	t.Helper()
	apptest.Eventually(t, func() bool {
		return h.Database.Count(t, `SELECT count(*) FROM webhook_inbox WHERE event_id = $1 AND looks > 0 AND processed_at IS NULL`, id) == 1
	}, func() string { return "event " + id + " was not looked at, or was closed" })
}

// ask requests an action of the test's own and returns its operation's id at
// once.
func (h *hall) ask(t *testing.T, r *apptest.Replica, typ, run string) string {
	t.Helper()
	req := apptest.Waiting(apptest.Invoice(run), 0)
	req.ActionType = typ
	return h.Ask(t, r, req).GetOperation().GetId()
}

func effect(t *testing.T, h *hall, operation string) string {
	t.Helper()
	effects := h.Provider.EffectsFor(operation)
	if len(effects) != 1 {
		t.Fatalf("the target holds %d effects; %s", len(effects), h.Describe())
	}
	return effects[0].ID
}
