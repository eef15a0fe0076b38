package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/internal/signing"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// internalService is a service of the tenant's own behind a guard. It can lose
// its answers.
type internalService struct {
	effects atomic.Int32
	lose    atomic.Int32 // so many answers
	server  *httptest.Server
	guarded http.Handler
}

func (s *internalService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.lose.Add(-1) < 0 {
		s.guarded.ServeHTTP(w, r)
		return
	}
	s.guarded.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// guardWith puts the guard in its place, once the keys have an address.
func (s *internalService) guardWith(t *testing.T, keysURL, issuer string) {
	t.Helper()
	keys, err := guard.NewRemoteKeys(guard.RemoteOptions{URL: keysURL, MinGap: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := guard.NewVerifier(guard.VerifierOptions{Issuer: issuer, Audience: "billing", Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(guard.Options{
		Verifier: verifier, Store: guard.NewMemory(guard.MemoryOptions{}), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.guarded = g.Require("billing.credit.grant")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := guard.FromContext(r.Context())
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = claims.CheckArguments(body)
		}
		if err != nil {
			guard.WriteError(w, err)
			return
		}
		s.effects.Add(1)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"id": claims.OperationID, "secret": "s3cret"})
	}))
}

// credit is the adapter of its one action.
type credit struct{ url string }

func (c credit) Spec() actions.Spec {
	return actions.Spec{
		Type: "billing.credit.grant", Version: "1", Schema: json.RawMessage(`{"type":"object"}`), Timeout: 5 * time.Second,
		TokenAudience: "billing", SensitiveReceipt: []string{"secret"},
		// The guard makes an operation once, whatever is sent.
		Contract: actions.Contract{Provider: "billing", Version: "1", Keys: actions.KeyRules{Honoured: true, Window: time.Hour}},
	}
}

func (credit) Validate(actions.Arguments) error { return nil }

func (c credit) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(string(call.Arguments.JSON())))
	if err != nil {
		return actions.Outcome{}
	}
	if call.OperationToken != "" {
		r.Header.Set(guard.TokenHeader, call.OperationToken)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return actions.Outcome{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return actions.Outcome{}
	case resp.StatusCode == http.StatusCreated:
		return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: call.OperationID, JSON: text}}
	case resp.StatusCode == http.StatusUnauthorized:
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "refused", Message: string(text)}}
	default:
		return actions.Outcome{}
	}
}

// creditPolicy lets planners grant credit in a stage.
func creditPolicy(version, stage string) string {
	return fmt.Sprintf(`kind: policy
tenant: acme
version: %q
stages: {action_types: {billing.*: %s}}
allow: [{id: planners, actors: ["planner*"], action_types: [billing.*]}]
`, version, stage)
}

// TestEnforce: an internal service takes writes of Onceward's alone, makes each
// once though its answer was lost, and goes on through a rotation of keys.
func TestEnforce(t *testing.T) {
	t.Parallel()
	service := &internalService{}
	service.server = httptest.NewServer(service)
	t.Cleanup(service.server.Close)
	w := apptest.New(t, apptest.Options{
		Adapters: []actions.Adapter{credit{service.server.URL}}, Policies: map[string]string{"acme.yaml": creditPolicy("1", "enforce")},
	})
	public := listen(t, "127.0.0.1:0")
	keysURL := "http://" + public.Addr().String() + signing.KeysPath
	var keys *secrets.Secrets
	r := w.Start(t, func(c *app.Config) { keys, c.HTTP = c.Secrets, public })
	service.guardWith(t, keysURL, app.Issuer(keys))
	grant := func(run string) *oncewardv1.RequestActionRequest {
		req := apptest.Note("x", run)
		req.ActionType = "billing.credit.grant"
		req.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: `{"amount": 5e2}`}
		return req
	}
	want := func(effects int32) {
		t.Helper()
		if got := service.effects.Load(); got != effects {
			t.Errorf("%d effects, want %d", got, effects)
		}
	}

	op := w.AskIn(t, r, grant("first"), succeeded).GetOperation()
	want(1)
	if receipt := op.GetReceipt().GetJson(); strings.Contains(receipt, "s3cret") || !strings.Contains(receipt, actions.Redacted) {
		t.Errorf("the receipt is %s", receipt)
	}

	service.lose.Store(1)
	w.AskIn(t, r, grant("lost"), succeeded)
	want(2)

	must := func(_ secrets.KeyInfo, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := keys.Reload(); err != nil || !changed {
			t.Fatalf("reload: %v, %v", changed, err)
		}
	}
	must(secrets.Add(w.SecretsDir, secrets.Signing))
	must(secrets.Promote(w.SecretsDir, secrets.Signing))
	w.AskIn(t, r, grant("rotated"), succeeded)
	want(3)

	// Without the stage there is no token, and the service refuses.
	w.WritePolicy(t, "acme.yaml", creditPolicy("2", "reconcile"))
	inForce(t, w, r, "2")
	w.AskIn(t, r, grant("unenforced"), failed)
	want(3)
}

// The public keys, too, are in plain text on loopback only.
func TestLaw12_PublicKeysInPlainText(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	config := configOf(t, w, w.SecretsDir)
	config.HTTP = listen(t, "0.0.0.0:0")
	if _, err := app.New(t.Context(), config); err == nil || !strings.Contains(err.Error(), app.ErrPlainText.Error()) {
		t.Errorf("starting in plain text: %v, want %v", err, app.ErrPlainText)
	}
}
