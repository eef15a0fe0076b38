package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/inbox"
	"github.com/onceward/onceward/ledger"
)

// shelf is a ledger that keeps what it is given, or fails.
type shelf struct {
	mu     sync.Mutex
	events []ledger.InboxEvent
	err    error
	block  chan struct{} // when set, storing waits for it
}

func (s *shelf) StoreEvents(ctx context.Context, tenant, provider string, events []ledger.InboxEvent) (int, error) {
	if s.block != nil {
		select {
		case <-s.block:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	for _, e := range events {
		e.Tenant, e.Provider = tenant, provider
		s.events = append(s.events, e)
	}
	return len(events), nil
}

// script is a source that says what a test says.
type script func(tenant string, m actions.Message) ([]actions.Event, error)

func (script) Provider() string { return "fakepay" }

func (s script) Events(tenant string, m actions.Message, _ time.Time) ([]actions.Event, error) {
	return s(tenant, m)
}

func says(events ...actions.Event) script {
	return func(string, actions.Message) ([]actions.Event, error) { return events, nil }
}

func fails(err error) script {
	return func(string, actions.Message) ([]actions.Event, error) { return nil, err }
}

func appliedEvent() actions.Event {
	return actions.Event{ID: "evt_1", Reference: "re_1", Outcome: actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{JSON: json.RawMessage(`{"id":"re_1"}`)}}}
}

// listening serves an inbox where only acme has a provider, and it is fakepay.
func listening(t *testing.T, l inbox.Ledger, s actions.Source, change func(*inbox.Options)) *httptest.Server {
	t.Helper()
	o := inbox.Options{
		Ledger: l, Sensitive: nothingSensitive, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Source: func(tenant, provider string) actions.Source {
			if tenant == "acme" && provider == "fakepay" {
				return s
			}
			return nil
		},
	}
	if change != nil {
		change(&o)
	}
	b, err := inbox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = inbox.NewServer(b, o.Log)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// reply is what a provider got.
type reply struct {
	status     int
	body       string
	retryAfter string
}

func send(t *testing.T, method, url, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

// do makes a request and reads the answer.
func do(t *testing.T, req *http.Request) reply {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, strings.TrimSpace(string(text)), resp.Header.Get("Retry-After")}
}

const address = "/v1/webhooks/acme/fakepay"

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, path string
		source       actions.Source
		ledger       error
		body         string
		want         reply
		stored       int
	}{
		"stored":             {source: says(appliedEvent()), want: reply{200, `{"stored":1}`, ""}, stored: 1},
		"of no operation":    {source: says(), want: reply{200, `{"stored":0}`, ""}},
		"forged":             {source: fails(errors.New("signature of somebody else")), want: reply{401, `{"error":"not verified"}`, ""}},
		"malformed":          {source: fails(fmt.Errorf("%w: no id", actions.ErrMalformed)), want: reply{400, `{"error":"malformed"}`, ""}},
		"source panics":      {source: script(func(string, actions.Message) ([]actions.Event, error) { panic("bug") }), want: reply{503, `{"error":"not stored, send it again"}`, "30"}},
		"unknown provider":   {path: "/v1/webhooks/acme/other", source: says(appliedEvent()), want: reply{404, `{"error":"not found"}`, ""}},
		"unknown tenant":     {path: "/v1/webhooks/globex/fakepay", source: says(appliedEvent()), want: reply{404, `{"error":"not found"}`, ""}},
		"no tenant's name":   {path: "/v1/webhooks/ac%00me/fakepay", source: says(appliedEvent()), want: reply{404, `{"error":"not found"}`, ""}},
		"tenant of nobody":   {source: says(appliedEvent()), ledger: ledger.ErrNotFound, want: reply{404, `{"error":"not found"}`, ""}},
		"another path":       {path: "/v1/webhooks/acme", source: says(appliedEvent()), want: reply{404, `{"error":"not found"}`, ""}},
		"another method":     {method: http.MethodGet, source: says(appliedEvent()), want: reply{404, `{"error":"not found"}`, ""}},
		"ledger away":        {source: says(appliedEvent()), ledger: ledger.ErrUnavailable, want: reply{503, `{"error":"not stored, send it again"}`, "30"}},
		"not replicated":     {source: says(appliedEvent()), ledger: ledger.ErrUnsafeCommit, want: reply{503, `{"error":"not stored, send it again"}`, "30"}},
		"schema is old":      {source: says(appliedEvent()), ledger: ledger.ErrNoInbox, want: reply{503, `{"error":"not stored, send it again"}`, "30"}},
		"largest":            {source: says(appliedEvent()), body: strings.Repeat("x", inbox.MaxBodyBytes), want: reply{200, `{"stored":1}`, ""}, stored: 1},
		"larger than that":   {source: says(appliedEvent()), body: strings.Repeat("x", inbox.MaxBodyBytes+1), want: reply{413, `{"error":"too large"}`, ""}},
		"only what is known": {source: says(appliedEvent(), actions.Event{ID: "evt_2", Reference: "re_2"}), want: reply{200, `{"stored":1}`, ""}, stored: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shelf{err: test.ledger}
			server := listening(t, s, test.source, nil)
			method, path := test.method, test.path
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = address
			}
			if got := send(t, method, server.URL+path, test.body); got != test.want {
				t.Errorf("answered %+v, want %+v", got, test.want)
			}
			if len(s.events) != test.stored {
				t.Errorf("stored %+v, want %d", s.events, test.stored)
			}
		})
	}
}

// What a source sees is what came in.
func TestSourceSeesTheMessage(t *testing.T) {
	t.Parallel()
	var tenant string
	var seen actions.Message
	source := script(func(of string, m actions.Message) ([]actions.Event, error) {
		tenant, seen = of, m
		return nil, nil
	})
	for public, want := range map[string]string{
		"":                           "",
		"https://hooks.example.com/": "https://hooks.example.com",
	} {
		server := listening(t, &shelf{}, source, func(o *inbox.Options) { o.PublicURL = public })
		if want == "" {
			want = server.URL
		}
		if got := send(t, http.MethodPost, server.URL+address+"?a=1&b=%20", `{"a": 1}`); got.status != http.StatusOK {
			t.Fatalf("answered %+v", got)
		}
		if tenant != "acme" || seen.Method != http.MethodPost || seen.URL != want+address+"?a=1&b=%20" || string(seen.Body) != `{"a": 1}` || len(seen.Values("content-length")) != 1 {
			t.Errorf("%q: saw %s: %+v", public, tenant, seen)
		}
	}
}

func TestWhatIsStored(t *testing.T) {
	t.Parallel()
	operation := uuid.NewString()
	event := func(change func(*actions.Event)) actions.Event {
		e := appliedEvent()
		change(&e)
		return e
	}
	for name, test := range map[string]struct {
		event actions.Event
		holds func(ledger.InboxEvent) bool
	}{
		"receipt": {appliedEvent(), func(e ledger.InboxEvent) bool {
			return e.Tenant == "acme" && e.Provider == "fakepay" && e.ID == "evt_1" && e.Outcome == "applied" && e.Reference == "re_1" && string(e.Receipt) == `{"id":"re_1"}` && e.Failure == nil
		}},
		"the receipt's reference is the effect's": {event(func(e *actions.Event) { e.Outcome.Receipt.Reference = "re_2" }), func(e ledger.InboxEvent) bool { return e.Reference == "re_2" }},
		"our operation":              {event(func(e *actions.Event) { e.OperationID, e.Reference = strings.ToUpper(operation), "" }), func(e ledger.InboxEvent) bool { return e.OperationID == operation && e.Reference == "" }},
		"another's use of the field": {event(func(e *actions.Event) { e.OperationID = "order 42" }), func(e ledger.InboxEvent) bool { return e.OperationID == "" && e.Reference == "re_1" }},
		"failure": {event(func(e *actions.Event) {
			e.Outcome = actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "declined", Message: "Declined.", Correctable: true, Evidence: "refund.failed", Violations: []actions.Violation{{Field: "card"}}}}
		}), func(e ledger.InboxEvent) bool {
			return e.Outcome == "rejected" && e.Receipt == nil && e.Failure.Code == "declined" && e.Failure.Correctable && len(e.Failure.Violations) == 1 && e.Detail == "refund.failed"
		}},
		"under way": {event(func(e *actions.Event) { e.Outcome = actions.Outcome{Kind: actions.Accepted} }), func(e ledger.InboxEvent) bool { return e.Outcome == "accepted" && e.Receipt == nil }},
		"nameless":  {event(func(e *actions.Event) { e.Outcome = actions.Outcome{Kind: actions.AppliedNoReceipt} }), func(e ledger.InboxEvent) bool { return e.Outcome == "applied_no_receipt" }},
		"no id": {event(func(e *actions.Event) { e.ID = "" }), func(e ledger.InboxEvent) bool {
			return strings.HasPrefix(e.ID, "message:") && strings.HasSuffix(e.ID, ":0")
		}},
		"an id with spaces": {event(func(e *actions.Event) { e.ID = "evt 1" }), func(e ledger.InboxEvent) bool { return strings.HasPrefix(e.ID, "sha256:") }},
		"a long id":         {event(func(e *actions.Event) { e.ID = strings.Repeat("e", 256) }), func(e ledger.InboxEvent) bool { return strings.HasPrefix(e.ID, "sha256:") }},
		"the longest id":    {event(func(e *actions.Event) { e.ID = strings.Repeat("e", 255) }), func(e ledger.InboxEvent) bool { return len(e.ID) == 255 }},
		"proves nothing":    {event(func(e *actions.Event) { e.Outcome.Kind = actions.Ambiguous }), nil},
		"proves too much":   {event(func(e *actions.Event) { e.Outcome.Kind = actions.NotApplied }), nil},
		"names nothing":     {event(func(e *actions.Event) { e.Reference, e.OperationID = "", "order 42" }), nil},
	} {
		s := &shelf{}
		send(t, http.MethodPost, listening(t, s, says(test.event), nil).URL+address, "{}")
		switch {
		case test.holds == nil && len(s.events) != 0:
			t.Errorf("%s: stored %+v", name, s.events)
		case test.holds != nil && (len(s.events) != 1 || !test.holds(s.events[0])):
			t.Errorf("%s: stored %+v", name, s.events)
		}
	}
}

// nothingSensitive is a provider whose receipts hold nothing that is.
func nothingSensitive(string) []string { return nil }

// What an action type of the provider calls sensitive is not stored, although
// nobody knows yet which one the event is about.
func TestReceiptsAreStoredRedacted(t *testing.T) {
	t.Parallel()
	s, e := &shelf{}, appliedEvent()
	e.Outcome.Receipt.JSON = []byte(`{"id":"re_1","card":{"n":"4242"},"iban":"DE1"}`)
	server := listening(t, s, says(e), func(o *inbox.Options) {
		o.Sensitive = func(provider string) []string { return map[string][]string{"fakepay": {"card", "iban"}}[provider] }
	})
	send(t, http.MethodPost, server.URL+address, "{}")
	if len(s.events) != 1 || string(s.events[0].Receipt) != `{"id":"re_1","card":"[redacted]","iban":"[redacted]"}` {
		t.Errorf("stored %+v", s.events)
	}
}

// A caller who sends a byte now and then is cut off, and others are served.
func TestSlowCallerIsCutOff(t *testing.T) {
	t.Parallel()
	server := listening(t, &shelf{}, says(appliedEvent()), func(o *inbox.Options) { o.ReadTimeout = 50 * time.Millisecond })
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx", address); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answered, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(answered, []byte(" 408 ")) {
		t.Errorf("answered %q, %v", answered, err)
	}
	if got := send(t, http.MethodPost, server.URL+address, "{}"); got.status != http.StatusOK {
		t.Errorf("another caller got %+v", got)
	}
}

// More than may be in flight are told to come again.
func TestCrowdIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	s := &shelf{block: make(chan struct{})}
	reached := make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	source := script(func(string, actions.Message) ([]actions.Event, error) {
		once()
		return []actions.Event{appliedEvent()}, nil
	})
	server := listening(t, s, source, func(o *inbox.Options) { o.MaxInFlight = 1 })
	first := make(chan reply, 1)
	go func() { first <- send(t, http.MethodPost, server.URL+address, "{}") }()
	<-reached
	if got := send(t, http.MethodPost, server.URL+address, "{}"); got.status != http.StatusServiceUnavailable || got.retryAfter == "" {
		t.Errorf("the second got %+v", got)
	}
	close(s.block)
	if got := <-first; got.status != http.StatusOK {
		t.Errorf("the first got %+v", got)
	}
}

// Neither bodies nor signatures are in the log.
func TestLogTellsNoSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b, err := inbox.New(inbox.Options{
		Ledger: &shelf{}, Sensitive: nothingSensitive, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Source: func(string, string) actions.Source { return says(appliedEvent()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{"name":"Li Wang"}`))
	req.Header.Set("X-Signature", "5eb63bbbe01eeed093cb22bb8f5acdc3")
	w := httptest.NewRecorder()
	b.ServeHTTP(w, req)
	if w.Code != http.StatusOK || log.Len() == 0 || strings.Contains(log.String(), "Li Wang") || strings.Contains(log.String(), "5eb63bbb") {
		t.Errorf("status %d, log %s", w.Code, log.String())
	}
}

// What cannot be a tenant is nobody's, even where a source serves everybody.
func TestTenantNames(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	server := listening(t, s, nil, func(o *inbox.Options) {
		o.Source = func(string, string) actions.Source { return says(appliedEvent()) }
	})
	for name, want := range map[string]int{
		"acme": 200, "a-b_1": 200, strings.Repeat("a", 63): 200,
		strings.Repeat("a", 64): 404, "Acme": 404, "-acme": 404, "_acme": 404, "ac%00me": 404, "ac%2Fme": 404, "ac%FFme": 404, "%20": 404,
	} {
		if got := send(t, http.MethodPost, server.URL+"/v1/webhooks/"+name+"/fakepay", "{}"); got.status != want {
			t.Errorf("%s: answered %+v, want %d", name, got, want)
		}
	}
	if len(s.events) != 3 {
		t.Errorf("stored %+v", s.events)
	}
}

// A source reads its secrets by the tenant's name: what can be no such name does
// not get to it.
func TestSourcesSeeNamesOfTenantsOnly(t *testing.T) {
	t.Parallel()
	server := listening(t, &shelf{}, says(appliedEvent()), func(o *inbox.Options) {
		source := o.Source
		o.Source = func(tenant, provider string) actions.Source {
			if tenant != "acme" {
				t.Errorf("a source of tenant %q is asked for", tenant)
			}
			return source(tenant, provider)
		}
	})
	for _, tenant := range []string{"..%2f..%2fetc", "%2e%2e", "a%00b", "Acme", "acme%2f..", "-acme", strings.Repeat("a", 64)} {
		if got := send(t, http.MethodPost, server.URL+"/v1/webhooks/"+tenant+"/fakepay", "{}"); got.status == http.StatusOK {
			t.Errorf("%s: %+v", tenant, got)
		}
	}
	if got := send(t, http.MethodPost, server.URL+"/v1/webhooks/acme/fakepay", "{}"); got.status != http.StatusOK {
		t.Errorf("acme: %+v", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	good := inbox.Options{
		Ledger: &shelf{}, Source: func(string, string) actions.Source { return nil }, Sensitive: nothingSensitive, Log: slog.New(slog.DiscardHandler),
	}
	for name, change := range map[string]func(*inbox.Options){
		"no ledger":          func(o *inbox.Options) { o.Ledger = nil },
		"no source":          func(o *inbox.Options) { o.Source = nil },
		"no sensitive":       func(o *inbox.Options) { o.Sensitive = nil },
		"no log":             func(o *inbox.Options) { o.Log = nil },
		"url without host":   func(o *inbox.Options) { o.PublicURL = "/hooks" },
		"url with a query":   func(o *inbox.Options) { o.PublicURL = "https://a.test/?a=1" },
		"another scheme":     func(o *inbox.Options) { o.PublicURL = "ftp://a.test" },
		"negative in flight": func(o *inbox.Options) { o.MaxInFlight = -1 },
		"negative timeout":   func(o *inbox.Options) { o.ReadTimeout = -1 },
	} {
		o := good
		change(&o)
		if _, err := inbox.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := inbox.New(good); err != nil {
		t.Error(err)
	}
}
