package declared_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/webhook"
)

const hooks = `
webhooks:
  verify: {scheme: hmac, secrets: [{file: "/run/${tenant}/old"}, {file: "/run/${tenant}/new"}], header: X-Sig, prefix: "sha256=", content: ["header:X-Kind", "text:.", body]}
  items: body.events
  events:
    - if: event.type == "refund.done" && header["x-kind"] == "refunds"
      id: event.id
      operation: event.?object.?metadata.?operation_id
      reference: event.object.id
      is: applied
      receipt: {reference: event.object.id, fields: {id: event.object.id, amount: event.object.amount}}
    - {if: event.type == "refund.failed", id: event.id, reference: event.object.id, is: rejected, code: event.object.why, message: event.object.text}
    - {if: event.type.startsWith("refund."), id: event.id, reference: event.object.id, is: accepted}
`

func message(secret, body string) actions.Message {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("refunds." + body))
	return actions.Message{Method: "POST", URL: "https://hooks.test/", Body: []byte(body), Header: map[string][]string{
		"x-kind": {"refunds"}, "X-Sig": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}}
}

// A provider's events are verified with the tenant's own secrets, of which several
// may be valid, and prove what the file says.
//
// PROVIDERS requirement 18
func TestSource(t *testing.T) {
	t.Parallel()
	p, _ := load(t, providerHead+hooks, actionHead+refund)
	source, err := declared.NewSource(p, declared.Options{Secret: func(ref definition.Secret, tenant string) (string, error) {
		if tenant == "nobody" {
			return "", errors.New("there is none")
		}
		return strings.ReplaceAll(ref.File, "${tenant}", tenant), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if source.Provider() != "acme" {
		t.Error(source.Provider())
	}
	event := func(kind, object string) string {
		return `{"events":[{"id":"e1","type":"` + kind + `","object":` + object + `}]}`
	}
	for name, test := range map[string]struct {
		body string
		want string // of the first event: kind, operation, reference, receipt or failure
	}{
		"applied":            {event("refund.done", `{"id":"r1","amount":12.50,"metadata":{"operation_id":"op1"}}`), `applied op1 r1, r1 {"amount":12.50,"id":"r1"}`},
		"no operation":       {event("refund.done", `{"id":"r1","amount":1}`), `applied  r1, r1 {"amount":1,"id":"r1"}`},
		"half a receipt":     {event("refund.done", `{"id":"r1"}`), `applied_no_receipt  r1, r1 `},
		"ended":              {event("refund.failed", `{"id":"r1","why":"Lost Card","text":"No\nmoney."}`), `rejected  r1  lost_card No money.`},
		"ended for nothing":  {event("refund.failed", `{"id":"r1"}`), `rejected  r1  ended The provider ended it without an effect.`},
		"under way":          {event("refund.new", `{"id":"r1"}`), `accepted  r1  accepted The provider is still at work on it.`},
		"about nobody":       {event("refund.new", `{}`), ""},
		"something else":     {event("charge.done", `{"id":"r1"}`), ""},
		"no events":          {`{"events":[]}`, ""},
		"without an id":      {`{"events":[{"type":"refund.new","object":{"id":"r1"}}]}`, "malformed"},
		"no list":            {`{"events":{}}`, "malformed"},
		"another message":    {`{}`, "malformed"},
		"no JSON":            {`{`, "malformed"},
		"an id with a digit": {`{"events":[{"id":17,"type":"refund.new","object":{"id":"r1"}}]}`, `accepted  r1  accepted The provider is still at work on it.`},
	} {
		for _, secret := range []string{"/run/t1/old", "/run/t1/new"} {
			got, err := source.Events("t1", message(secret, test.body), time.Now())
			text := ""
			switch {
			case errors.Is(err, actions.ErrMalformed):
				text = "malformed"
			case err != nil:
				text = err.Error()
			case len(got) > 0:
				e := got[0]
				if e.ID == "" || e.Detail == "" {
					t.Errorf("%s: %+v", name, e)
				}
				text = strings.Join([]string{e.Outcome.Kind.String(), e.OperationID, e.Reference + ",", e.Outcome.Receipt.Reference, string(e.Outcome.Receipt.JSON)}, " ")
				if e.Outcome.Kind == actions.Rejected || e.Outcome.Kind == actions.Accepted {
					text = strings.TrimSuffix(text, ",  ") + "  " + e.Outcome.Failure.Code + " " + e.Outcome.Failure.Message
				}
			}
			if text != test.want {
				t.Errorf("%s: got %q, want %q", name, text, test.want)
			}
		}
	}
	good := event("refund.new", `{"id":"r1"}`)
	for name, refused := range map[string]struct {
		tenant string
		m      actions.Message
		want   error
	}{
		"forged":                 {"t1", message("guess", good), webhook.ErrUnverified},
		"another tenant's":       {"t2", message("/run/t1/old", good), webhook.ErrUnverified},
		"forged and malformed":   {"t1", message("guess", "{"), webhook.ErrUnverified},
		"a tenant without a key": {"nobody", message("", good), webhook.ErrSecrets},
	} {
		if got, err := source.Events(refused.tenant, refused.m, time.Now()); !errors.Is(err, refused.want) || got != nil || errors.Is(err, actions.ErrMalformed) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestNewSourceRefuses(t *testing.T) {
	t.Parallel()
	p, _ := load(t, providerHead, actionHead+refund)
	if _, err := declared.NewSource(p, declared.Options{}); err == nil {
		t.Error("no webhooks: accepted")
	}
	p, _ = load(t, providerHead+hooks, actionHead+refund)
	if _, err := declared.NewSource(p, declared.Options{}); err == nil {
		t.Error("no secrets: accepted")
	}
}
