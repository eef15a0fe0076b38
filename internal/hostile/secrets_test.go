package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// The secrets that are planted. None is a part of another, and each is long enough
// to be nowhere by chance.
const (
	providerToken   = "PLANTEDprovidertoken7f3a"
	sensitiveArg    = "PLANTEDcardnumber4242"
	plainArg        = "PLANTEDplainargument91c2" // no secret, but nothing for a log
	sensitiveResult = "PLANTEDreceiptpin5501"
	panicText       = "PLANTEDpanictext0b8d"
	databaseSecret  = "PLANTEDdatabasepassword66"
	webhookSecret   = "PLANTEDwebhooksecret3e1f"
	jwtSecret       = "PLANTEDsignatureofatoken"
	adminToken      = "PLANTEDadmintoken8c02"
)

// indiscreet is an adapter that tells what it knows wherever it can. What it does
// is in its argument "do".
type indiscreet struct{}

func (indiscreet) Spec() actions.Spec {
	return actions.Spec{
		Type: "gossip.tell", Version: "1",
		Schema: json.RawMessage(`{"type":"object","properties":{"do":{"enum":["succeed","reject","doubt","panic","panic error"]},
			"card":{"type":"object","properties":{"number":{"type":"string","maxLength":40}}},"plain":{"type":"string","maxLength":40}}}`),
		Contract:      actions.Contract{Provider: "gossip", Version: "1"},
		SensitiveArgs: []string{"card.number"}, SensitiveReceipt: []string{"pin"},
	}
}

func (indiscreet) Validate(actions.Arguments) error { return nil }

func (indiscreet) Execute(_ context.Context, c actions.Call) actions.Outcome {
	text := string(c.Arguments.JSON())
	switch {
	case strings.Contains(text, `"succeed"`):
		return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: "ref_" + c.OperationID, JSON: fmt.Appendf(nil, `{"pin":%q,"ok":true}`, sensitiveResult)}}
	case strings.Contains(text, `"reject"`):
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "declined", Message: "card " + sensitiveArg + " was declined", Evidence: "card " + sensitiveArg}}
	case strings.Contains(text, `"panic"`):
		panic("bad card " + sensitiveArg + " " + panicText)
	case strings.Contains(text, `"panic error"`):
		panic(fmt.Errorf("bad card %s: %w", sensitiveArg, errors.New(panicText)))
	default:
		return actions.Outcome{Failure: actions.Failure{Code: "odd", Message: "card " + sensitiveArg, Evidence: "odd answer about " + sensitiveArg}}
	}
}

func (indiscreet) Lookup(context.Context, actions.Query) actions.Finding {
	panic("looking for " + sensitiveArg + panicText)
}

// talkative is a source of webhooks that panics with its secret, or tells it in an
// error.
type talkative struct{}

func (talkative) Provider() string { return "fakemail" }
func (talkative) Events(_ string, m actions.Message, _ time.Time) ([]actions.Event, error) {
	if bytes.Contains(m.Body, []byte("panic")) {
		panic("secret is " + webhookSecret)
	}
	return nil, errors.New("no signature")
}

// Secrets come in wherever they can, providers repeat them, adapters panic with
// them, every log line is written and every request is traced: nothing of them is in
// a log, in the ledger, in an answer or an error, in a metric, a span or a profile.
func TestPlantedSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	found := &everywhere{text: map[string]*bytes.Buffer{}}
	w := apptest.New(t, apptest.Options{Provider: fakeprovider.Options{Token: providerToken}, Adapters: []actions.Adapter{indiscreet{}}})
	w.Options.Demo.Token = providerToken
	secrets := []string{providerToken, sensitiveArg, sensitiveResult, panicText, databaseSecret, webhookSecret, jwtSecret, adminToken}
	secrets = append(secrets, keysOf(t, w)...)
	away := mustParse(t, w.Database.ServeURL)
	away.User = url.UserPassword(away.User.Username(), databaseSecret)

	debug := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	hooks, admin := listen(t), listen(t)
	spans := tracetest.NewSpanRecorder()
	told, err := telemetry.New(t.Context(), telemetry.Options{SampleRatio: 1, Processors: []sdktrace.SpanProcessor{spans}})
	if err != nil {
		t.Fatal(err)
	}
	asJSON := w.Start(t, func(c *app.Config) {
		c.Log = slog.New(slog.NewJSONHandler(found.writer("log, JSON"), debug))
		c.Webhooks, c.Source = hooks, func(string, string) actions.Source { return talkative{} }
		c.Telemetry, c.Admin, c.AdminToken, c.AdminProfiles = told, admin, adminToken, true
	})
	// The other replica's provider repeats what it was sent, in every way.
	echo := httptest.NewServer(http.HandlerFunc(echoing))
	t.Cleanup(echo.Close)
	w.Options.Demo.ProviderURL = echo.URL
	asText := w.Start(t, func(c *app.Config) {
		c.Log = slog.New(slog.NewTextHandler(found.writer("log, text"), debug))
		c.Reconcile = false
	})

	w.Provider.Next(
		fakeprovider.Fault{Kind: fakeprovider.Redirect, Location: "http://127.0.0.1:1/?token=" + providerToken},
		fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying},
		fakeprovider.Fault{Kind: fakeprovider.HTML502},
	)
	for i, r := range []*apptest.Replica{asJSON, asText} {
		ask := func(req *oncewardv1.RequestActionRequest) {
			resp, err := w.Try(t.Context(), r, apptest.Waiting(req, 200*time.Millisecond))
			found.answered(resp, err)
			if id := resp.GetOperation().GetId(); id != "" {
				got, err := r.Actions.GetOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.GetOperationRequest{
					Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: id}})
				found.answered(got, err)
			}
		}
		for j := range 4 {
			ask(apptest.Refund(fmt.Sprintf("ch_%d_%d", i, j), 5, fmt.Sprintf("run_%d_%d", i, j)))
		}
		ask(apptest.Contact(fmt.Sprintf("li%d@example.test", i)))
		for _, do := range []string{"succeed", "reject", "doubt", "panic", "panic error", "succeed", "nonsense"} {
			ask(gossip(do, fmt.Sprintf("gossip_%d_%s", i, do), sensitiveArg))
		}
		ask(gossip("succeed", fmt.Sprintf("gossip_%d_succeed", i), sensitiveArg+"other")) // other arguments
		ask(gossip("succeed", fmt.Sprintf("gossip_%d_long", i), strings.Repeat(sensitiveArg, 5)))
		for _, bearer := range []string{
			"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0." + jwtSecret, strings.Replace(w.Agent, ".", ".x", 1), w.Agent + "x", jwtSecret,
		} {
			resp, err := r.Actions.RequestAction(apptest.As(t.Context(), bearer), apptest.Note("n", "run_stranger"))
			found.answered(resp, err)
		}
		for _, body := range []string{"panic", "x"} {
			post(t, "http://"+hooks.Addr().String()+"/v1/webhooks/acme/fakemail?key="+webhookSecret, body)
		}
	}
	// Where the database is away, or its URL is wrong, the password is not in what is
	// said of it.
	for _, wrong := range []string{
		"postgres://serve:" + databaseSecret + "@127.0.0.1:1/onceward",
		"postgres://serve:" + databaseSecret + "@127.0.0.1:x/onceward",
		"postgres://serve:x@" + databaseSecret + "@127.0.0.1:1/onceward",
		"host=127.0.0.1 port=x password = '" + databaseSecret + " '",
		away.String(), // it asks for a password, or the role has another one or none
	} {
		store, err := postgres.Open(t.Context(), wrong)
		if err != nil {
			found.tell("errors of starting", err)
		} else if store.Close(); wrong != away.String() { // the tests' Postgres may trust everybody
			t.Errorf("there is a database at %s", wrong)
		}
		if _, err := migrations.Up(t.Context(), wrong); err == nil {
			t.Errorf("migrated %s", wrong)
		} else {
			found.tell("errors of starting", err)
		}
	}
	// Who runs the process sees no more, with the right credential or without.
	for _, page := range []string{"/metrics", "/readyz", "/healthz", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline", "/debug/pprof/", "/" + jwtSecret} {
		for _, bearer := range []string{adminToken, adminToken + "x", ""} {
			found.tell("admin, "+page, scrape(t, "http://"+admin.Addr().String()+page, bearer))
		}
	}
	apptest.Eventually(t, func() bool { return found.holds("log, JSON", "look-up panicked") }, w.Describe)
	for _, r := range []*apptest.Replica{asJSON, asText} {
		reviewer := apptest.As(t.Context(), w.Reviewer)
		reviews, err := r.Reviews.ListReviews(reviewer, &oncewardv1.ListReviewsRequest{})
		found.answered(reviews, err)
		events, err := r.Audit.ListEvents(reviewer, &oncewardv1.ListEventsRequest{PageSize: 1000})
		found.answered(events, err)
		if len(events.GetEvents()) == 0 {
			t.Error("the audit record is empty")
		}
		ops, err := r.Actions.ListOperations(reviewer, &oncewardv1.ListOperationsRequest{})
		found.answered(ops, err)
		stats, err := r.Stats.GetStats(reviewer, &oncewardv1.GetStatsRequest{})
		found.answered(stats, err)
		r.Stop() // what is held back is written
	}
	for _, s := range spans.Ended() {
		found.tell("spans", s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links(), s.Resource())
	}
	for table, rows := range tablesAsText(t, w) {
		found.tell("table "+table, rows)
	}
	for where, text := range found.text {
		for _, secret := range secrets {
			for _, form := range forms(secret) {
				if at := strings.Index(text.String(), form); at >= 0 {
					t.Errorf("%s holds %.12s…: %.300s", where, secret, text.String()[max(0, at-150):])
					break
				}
			}
		}
		if strings.HasPrefix(where, "log") && strings.Contains(text.String(), plainArg) {
			t.Errorf("%s holds an argument", where)
		}
	}
	// The test sees what it looks for.
	for where, word := range map[string]string{"log, JSON": "adapter panicked", "log, text": "adapter panicked", "answers": "gossip.tell", "errors": "IDEMPOTENCY_KEY_REUSED", "admin, /metrics": `action_type="gossip.tell"`, "spans": "gossip.tell", "admin, /readyz": "ledger",
		"admin, /debug/pprof/goroutine?debug=2": "goroutine 1", "errors of starting": "127.0.0.1", "table operations": "gossip.tell", "table audit_events": "confirm"} {
		if b := found.text[where]; b == nil || !strings.Contains(b.String(), word) {
			t.Errorf("%s does not even hold %q", where, word)
		}
	}
}

func gossip(do, key, card string) *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{
		ActionType: "gossip.tell", IdempotencyKey: strings.ReplaceAll(key, " ", "_"),
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: fmt.Sprintf(`{"do":%q,"card":{"number":%q},"plain":%q}`, do, card, plainArg)},
	}
}

// echoing answers with the credential that came: in a refusal, in a success, in a
// redirect, in headers.
func echoing(w http.ResponseWriter, r *http.Request) {
	sent := r.Header.Get("Authorization")
	body, _ := io.ReadAll(r.Body) // what came of it is enough
	w.Header().Set("X-Echo", sent)
	switch {
	case bytes.Contains(body, []byte("_0")):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"code":"bad","message":"you sent %s"}}`, sent)
	case bytes.Contains(body, []byte("_1")):
		w.Header().Set("Location", "http://127.0.0.1:1/?token="+url.QueryEscape(sent))
		w.WriteHeader(http.StatusTemporaryRedirect)
	case bytes.Contains(body, []byte("_2")):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"re_1","status":"%s","charge_id":"%s"}`, sent, sent)
	default:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "<html>%s", sent)
	}
}

// keysOf are the secrets of the installation: what is in its folder of secrets, and
// the part of each API key that is none of its name.
func keysOf(t *testing.T, w *apptest.World) []string {
	t.Helper()
	var all []string
	for _, key := range []string{w.Agent, w.Reviewer, w.Admin} {
		all = append(all, key[strings.LastIndex(key, ".")+1:])
	}
	files, err := os.ReadDir(w.SecretsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(w.SecretsDir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(data), func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+/=_-", r)
		}) {
			if len(word) >= 40 && !strings.Contains(word, "google") {
				all = append(all, word)
			}
		}
	}
	if len(all) < 6 {
		t.Fatalf("found only %d keys", len(all))
	}
	return all
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
