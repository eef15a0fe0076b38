package guard_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/guard"
)

// ask sends one request to a handler.
func ask(h http.Handler, method, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/refunds", strings.NewReader(`{"amount":1000}`))
	if token != "" {
		r.Header.Set(guard.TokenHeader, token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// refunds counts effects and answers as a test says.
type refunds struct {
	made   atomic.Int32
	answer func(w http.ResponseWriter, r *http.Request)
}

func (h *refunds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.made.Add(1)
	if h.answer != nil {
		h.answer(w, r)
		return
	}
	w.Header().Set("Location", "/refunds/re_1")
	w.Header().Add("Set-Cookie", "session=1")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"re_1"}`)
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func memory() *guard.Memory { return guard.NewMemory(guard.MemoryOptions{Now: now}) }

func TestWritesNeedAToken(t *testing.T) {
	for method, want := range map[string]int{
		http.MethodGet: http.StatusCreated, http.MethodHead: http.StatusCreated, http.MethodOptions: http.StatusCreated,
		http.MethodPost: http.StatusUnauthorized, http.MethodPut: http.StatusUnauthorized, http.MethodPatch: http.StatusUnauthorized,
		http.MethodDelete: http.StatusUnauthorized, "PROPFIND": http.StatusUnauthorized, "get": http.StatusUnauthorized,
	} {
		h := &refunds{}
		w := ask(guarded(t, guard.Options{Store: memory()}).Require(action)(h), method, "")
		if w.Code != want || (want == http.StatusUnauthorized) != (h.made.Load() == 0) {
			t.Errorf("%s: %d, %d effects", method, w.Code, h.made.Load())
		}
		if want == http.StatusUnauthorized && (w.Body.String() != `{"reason":"OPERATION_TOKEN_REQUIRED"}` || w.Header().Get("WWW-Authenticate") == "") {
			t.Errorf("%s: %s, %v", method, w.Body, w.Header())
		}
	}
}

// A token that comes with a read is nothing that a handler should see, either.
func TestReadsLoseTheirToken(t *testing.T) {
	h := &refunds{answer: func(_ http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values(guard.TokenHeader)) != 0 || r.Header.Get("X-Trace") != "1" {
			t.Errorf("the handler sees %v", r.Header)
		}
	}}
	r := httptest.NewRequest(http.MethodGet, "/refunds", http.NoBody)
	r.Header.Set(guard.TokenHeader, sign(t, claims(t)))
	r.Header.Set("X-Trace", "1")
	guarded(t, guard.Options{Store: memory()}).Require(action)(h).ServeHTTP(httptest.NewRecorder(), r)
	if h.made.Load() != 1 || r.Header.Get(guard.TokenHeader) == "" {
		t.Errorf("%d calls; the caller's request has %v", h.made.Load(), r.Header)
	}
}

func TestSafeMethodsAreAChoice(t *testing.T) {
	h := &refunds{}
	g := guarded(t, guard.Options{Store: memory(), SafeMethods: []string{}})
	if w := ask(g.Require(action)(h), http.MethodGet, ""); w.Code != http.StatusUnauthorized || h.made.Load() != 0 {
		t.Errorf("GET: %d", w.Code)
	}
}

// TestStrangersLearnNothing: whatever is wrong with a token, the answer is the
// same to the byte.
func TestStrangersLearnNothing(t *testing.T) {
	expired, foreign := claims(t), claims(t)
	expired.ExpiresAt = expired.IssuedAt + 1
	expired.IssuedAt -= 100
	expired.ExpiresAt -= 90
	foreign.Audience = "shipping"
	h := &refunds{}
	g := guarded(t, guard.Options{Store: memory()})
	for _, token := range []string{"x", sign(t, expired), sign(t, foreign), sign(t, claims(t)) + "x"} {
		w := ask(g.Require(action)(h), http.MethodPost, token)
		if w.Code != http.StatusUnauthorized || w.Body.String() != `{"reason":"OPERATION_TOKEN_INVALID"}` || h.made.Load() != 0 {
			t.Errorf("%s: %d %s", token, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/refunds", http.NoBody)
	r.Header[guard.TokenHeader] = []string{sign(t, claims(t)), sign(t, claims(t))}
	w := httptest.NewRecorder()
	if g.Require(action)(h).ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("two tokens: %d", w.Code)
	}
	if w := ask(g.Require("a.b")(h), http.MethodPost, sign(t, claims(t))); w.Code != http.StatusForbidden || w.Body.String() != `{"reason":"OPERATION_FORBIDDEN"}` {
		t.Errorf("another action: %d %s", w.Code, w.Body)
	}
	if h.made.Load() != 0 {
		t.Errorf("%d effects", h.made.Load())
	}
}

func TestSecondRequestGetsTheFirstResponse(t *testing.T) {
	h := &refunds{answer: nil}
	var seen guard.Claims
	h.answer = func(w http.ResponseWriter, r *http.Request) {
		seen, _ = guard.FromContext(r.Context())
		if r.Header.Get(guard.TokenHeader) != "" {
			t.Error("the handler sees the token")
		}
		w.Header().Set("Location", "/refunds/re_1")
		w.Header().Set("Set-Cookie", "session=1")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Too", "late")
		_, _ = io.WriteString(w, `{"id":"re_1"}`)
	}
	route := guarded(t, guard.Options{Store: memory()}).Require("a.b", action)(h)
	first := ask(route, http.MethodPost, sign(t, claims(t)))
	if first.Code != http.StatusCreated || first.Body.String() != `{"id":"re_1"}` || first.Header().Get("Set-Cookie") == "" ||
		first.Header().Get("Too") != "" || first.Header().Get(guard.ReplayHeader) != "" {
		t.Errorf("first: %d %s %v", first.Code, first.Body, first.Header())
	}
	if seen != claims(t) {
		t.Errorf("the handler saw %+v", seen)
	}
	again := claims(t) // another attempt of it
	again.Attempt, again.ID = 2, "op-1/2"
	second := ask(route, http.MethodPost, sign(t, again))
	if second.Code != http.StatusCreated || second.Body.String() != `{"id":"re_1"}` || second.Header().Get("Location") != "/refunds/re_1" ||
		second.Header().Get(guard.ReplayHeader) != "true" || second.Header().Get("Set-Cookie") != "" {
		t.Errorf("second: %d %s %v", second.Code, second.Body, second.Header())
	}
	if h.made.Load() != 1 {
		t.Errorf("%d effects", h.made.Load())
	}
	for name, change := range map[string]func(*guard.Claims){
		"another operation": func(c *guard.Claims) { c.OperationID = "op-2" },
		"another tenant":    func(c *guard.Claims) { c.Tenant = "globex" },
	} {
		before := h.made.Load()
		c := claims(t)
		change(&c)
		if w := ask(route, http.MethodPost, sign(t, c)); w.Code != http.StatusCreated || h.made.Load() != before+1 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	other := claims(t)
	other.ArgumentsHash = hashOf(t, `{"amount":9999}`)
	if w := ask(route, http.MethodPost, sign(t, other)); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "OPERATION_MISMATCH") || h.made.Load() != 3 {
		t.Errorf("other arguments: %d %s", w.Code, w.Body)
	}
}

// TestTwoAtOnce: of many equal requests one is performed; the others are told.
func TestTwoAtOnce(t *testing.T) {
	started, end := make(chan struct{}), make(chan struct{})
	h := &refunds{}
	h.answer = func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-end
		w.WriteHeader(http.StatusCreated)
	}
	route := guarded(t, guard.Options{Store: memory()}).Require(action)(h)
	token := sign(t, claims(t))
	var all sync.WaitGroup
	var created, told atomic.Int32
	count := func() {
		switch w := ask(route, http.MethodPost, token); {
		case w.Code == http.StatusCreated:
			created.Add(1)
		case w.Code == http.StatusConflict && w.Body.String() == `{"reason":"OPERATION_IN_PROGRESS"}`:
			told.Add(1)
		default:
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	all.Go(count)
	<-started
	for range 10 {
		count()
	}
	close(end)
	all.Wait()
	if created.Load() != 1 || told.Load() != 10 || h.made.Load() != 1 {
		t.Errorf("%d created, %d told, %d effects", created.Load(), told.Load(), h.made.Load())
	}
}

// TestHowItEnded: what a handler answers decides what the next request gets.
func TestHowItEnded(t *testing.T) {
	unresolved := `{"reason":"OPERATION_UNRESOLVED"}`
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		code   int    // of the first
		second string // body; empty: it is performed
	}{
		"accepted":       {status(http.StatusAccepted), 202, "-"},
		"redirect":       {status(http.StatusSeeOther), 303, "-"},
		"invalid":        {status(http.StatusUnprocessableEntity), 422, ""},
		"not found":      {status(http.StatusNotFound), 404, ""},
		"conflict":       {status(http.StatusConflict), 409, unresolved},
		"timeout":        {status(http.StatusRequestTimeout), 408, unresolved},
		"payment tried":  {status(http.StatusPaymentRequired), 402, unresolved},
		"caller left":    {status(499), 499, unresolved},
		"made up":        {status(477), 477, unresolved},
		"too many":       {status(http.StatusTooManyRequests), 429, unresolved},
		"internal error": {status(http.StatusInternalServerError), 500, unresolved},
		"unavailable":    {status(http.StatusServiceUnavailable), 503, unresolved},
		"proved": {func(w http.ResponseWriter, r *http.Request) {
			guard.NotApplied(r.Context())
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 503, ""},
		"panic": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, unresolved},
		"large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }, 200, `{"reason":"OPERATION_DONE"}`},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
		}, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := &refunds{answer: test.answer}
			route := guarded(t, guard.Options{Store: memory(), MaxResponse: 1000}).Require(action)(h)
			token := sign(t, claims(t))
			func() {
				defer func() {
					if r := recover(); (r != nil) != (test.code == 0) {
						t.Errorf("panic: %v", r)
					}
				}()
				if w := ask(route, http.MethodPost, token); w.Code != test.code {
					t.Errorf("first: %d %s", w.Code, w.Body)
				}
			}()
			h.answer = nil
			w := ask(route, http.MethodPost, token)
			switch {
			case test.second == "":
				if w.Code != http.StatusCreated || h.made.Load() != 2 {
					t.Errorf("second: %d %s, %d effects", w.Code, w.Body, h.made.Load())
				}
			case h.made.Load() != 1 || test.second != "-" && w.Body.String() != test.second || test.second == "-" && w.Code != test.code:
				t.Errorf("second: %d %s, %d effects", w.Code, w.Body, h.made.Load())
			}
		})
	}
}

// TestCrash: a process that died between claim and answer leaves an operation
// that is in progress, then unresolved, and never performed again by itself.
func TestCrash(t *testing.T) {
	var c clock
	store := guard.NewMemory(guard.MemoryOptions{Now: c.now})
	if _, err := store.Begin(t.Context(), claims(t), 20*time.Second); err != nil { // and nothing more
		t.Fatal(err)
	}
	h := &refunds{}
	route := guarded(t, guard.Options{Store: store}).Require(action)(h)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "OPERATION_IN_PROGRESS"}, {19 * time.Second, "OPERATION_IN_PROGRESS"}, {time.Second, "OPERATION_UNRESOLVED"}, {1000 * time.Hour, "OPERATION_UNRESOLVED"}} {
		c.pass(step.after)
		if w := ask(route, http.MethodPost, sign(t, claims(t))); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("after %s: %d %s", step.after, w.Code, w.Body)
		}
	}
	// Somebody found out that nothing was done.
	if err := store.Release(t.Context(), claims(t)); err != nil {
		t.Fatal(err)
	}
	if w := ask(route, http.MethodPost, sign(t, claims(t))); w.Code != http.StatusCreated || h.made.Load() != 1 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// broken fails where a test says.
type broken struct {
	guard.Store
	begin, finish error
}

func (b broken) Begin(ctx context.Context, c guard.Claims, hold time.Duration) (guard.Entry, error) {
	if b.begin != nil {
		return guard.Entry{}, b.begin
	}
	return b.Store.Begin(ctx, c, hold)
}

func (b broken) Finish(ctx context.Context, op guard.Operation, r guard.Response) error {
	if b.finish != nil {
		return b.finish
	}
	return b.Store.Finish(ctx, op, r)
}

func TestStoreIsAway(t *testing.T) {
	h := &refunds{}
	away := errors.New("store is away: password hunter2")
	w := ask(guarded(t, guard.Options{Store: broken{memory(), away, nil}}).Require(action)(h), http.MethodPost, sign(t, claims(t)))
	if w.Code != http.StatusServiceUnavailable || w.Body.String() != `{"reason":"GUARD_UNAVAILABLE"}` || h.made.Load() != 0 {
		t.Errorf("claim: %d %s, %d effects", w.Code, w.Body, h.made.Load())
	}
	// The effect is there: the caller is told, and the next one must not make
	// another.
	var log strings.Builder
	route := guarded(t, guard.Options{Store: broken{memory(), nil, away}, Log: slog.New(slog.NewTextHandler(&log, nil))}).Require(action)(h)
	if w := ask(route, http.MethodPost, sign(t, claims(t))); w.Code != http.StatusCreated || !strings.Contains(log.String(), "not recorded") {
		t.Errorf("answer: %d %s; log: %s", w.Code, w.Body, log.String())
	}
	if w := ask(route, http.MethodPost, sign(t, claims(t))); w.Code != http.StatusConflict || h.made.Load() != 1 {
		t.Errorf("again: %d %s, %d effects", w.Code, w.Body, h.made.Load())
	}
}

// TestCallerLeaves: the end is recorded all the same.
func TestCallerLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	h := &refunds{answer: func(w http.ResponseWriter, _ *http.Request) { leave(); w.WriteHeader(http.StatusCreated) }}
	route := guarded(t, guard.Options{Store: minding{memory()}}).Require(action)(h)
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/refunds", http.NoBody)
	r.Header.Set(guard.TokenHeader, sign(t, claims(t)))
	route.ServeHTTP(httptest.NewRecorder(), r)
	if w := ask(route, http.MethodPost, sign(t, claims(t))); w.Code != http.StatusCreated || h.made.Load() != 1 {
		t.Errorf("again: %d %s", w.Code, w.Body)
	}
}

// minding is a store that minds its context.
type minding struct{ guard.Store }

func (m minding) Finish(ctx context.Context, op guard.Operation, r guard.Response) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.Store.Finish(ctx, op, r)
}

func TestGuardsThatGuardNothing(t *testing.T) {
	good := guard.Options{Verifier: verifier(t, nil), Store: memory(), Log: slog.New(slog.DiscardHandler)}
	for name, change := range map[string]func(*guard.Options){
		"no verifier":      func(o *guard.Options) { o.Verifier = nil },
		"no log":           func(o *guard.Options) { o.Log = nil },
		"no store":         func(o *guard.Options) { o.Store = nil },
		"both":             func(o *guard.Options) { o.HandlersClaim = true },
		"negative hold":    func(o *guard.Options) { o.Hold = -1 },
		"negative maximum": func(o *guard.Options) { o.MaxResponse = -1 },
	} {
		o := good
		change(&o)
		if _, err := guard.New(o); err == nil {
			t.Errorf("%s: made", name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a route without action types is made")
		}
	}()
	guarded(t, good).Require()
}

func TestHandlersThatClaimByThemselves(t *testing.T) {
	h := &refunds{answer: status(http.StatusInternalServerError)}
	route := guarded(t, guard.Options{HandlersClaim: true}).Require(action)(h)
	for range 2 {
		if w := ask(route, http.MethodPost, sign(t, claims(t))); w.Code != http.StatusInternalServerError {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	if w := ask(route, http.MethodPost, ""); w.Code != http.StatusUnauthorized || h.made.Load() != 2 {
		t.Errorf("without a token: %d, called %d times", w.Code, h.made.Load())
	}
}
