package guard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/jws"
)

// endpoint is Onceward's key set, as a test has it.
type endpoint struct {
	*httptest.Server
	mu    sync.Mutex
	body  []byte
	code  int
	asked atomic.Int32
}

func serve(t *testing.T, keys ...jws.Key) *endpoint {
	t.Helper()
	e := &endpoint{body: set(t, keys...), code: http.StatusOK}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.asked.Add(1)
		e.mu.Lock()
		defer e.mu.Unlock()
		w.WriteHeader(e.code)
		_, _ = w.Write(e.body)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) answer(code int, body []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.code, e.body = code, body
}

// clock is moved by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time       { return noon.Add(time.Duration(c.at.Load())) }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

func remote(t *testing.T, url string, c *clock) *guard.RemoteKeys {
	t.Helper()
	keys, err := guard.NewRemoteKeys(guard.RemoteOptions{
		URL: url, Refresh: time.Minute, MinGap: 10 * time.Second, MaxStale: 10 * time.Minute, Timeout: 5 * time.Second, Now: c.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestRotationOfKeys walks through the life of two keys and an outage.
func TestRotationOfKeys(t *testing.T) {
	var c clock
	two := jws.Key{ID: "two", Public: public(key(2))}
	e := serve(t, one())
	keys := remote(t, e.URL, &c)
	step := func(what, id string, want error, asked int32) {
		t.Helper()
		_, err := keys.Key(t.Context(), id)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if got := e.asked.Load(); got != asked {
			t.Errorf("%s: asked %d times, want %d", what, got, asked)
		}
	}
	step("the first token", "one", nil, 1)
	step("from memory", "one", nil, 1)
	step("a made-up key: it may be new, and it is too soon to ask", "x", guard.ErrKeysUnavailable, 1)
	c.pass(10 * time.Second)
	step("a made-up key", "x", guard.ErrUnknownKey, 2)
	for range 5 {
		step("a flood of made-up keys", "y", guard.ErrKeysUnavailable, 2)
	}
	step("meanwhile", "one", nil, 2)

	e.answer(http.StatusOK, set(t, one(), two))
	c.pass(10 * time.Second)
	step("a new key is looked for", "two", nil, 3)
	c.pass(59 * time.Second)
	step("known", "two", nil, 3)
	c.pass(time.Second)
	step("old enough to ask again", "one", nil, 4)

	e.answer(http.StatusInternalServerError, nil)
	c.pass(time.Minute)
	step("an outage: what is known goes on", "two", nil, 5)
	step("and it is not asked for with every token", "two", nil, 5)
	step("what is not known is not refused for ever", "three", guard.ErrKeysUnavailable, 5)
	c.pass(9*time.Minute - time.Second)
	step("as long as it may be old", "one", nil, 6)
	c.pass(time.Second)
	step("too old to believe", "one", guard.ErrKeysUnavailable, 6)

	e.answer(http.StatusOK, set(t, two))
	c.pass(10 * time.Second)
	step("it is back", "two", nil, 7)
	c.pass(10 * time.Second)
	step("the old key was retired", "one", guard.ErrUnknownKey, 8)
}

func TestKeysThatCannotBeHad(t *testing.T) {
	for name, test := range map[string]struct {
		code int
		body string
	}{
		"an error":     {http.StatusBadGateway, ""},
		"a redirect":   {http.StatusFound, ""},
		"an empty set": {http.StatusOK, `{"keys":[]}`},
		"a page":       {http.StatusOK, "<html>"},
		"endless":      {http.StatusOK, strings.Repeat(" ", 1<<20)},
	} {
		var c clock
		e := serve(t, one())
		e.answer(test.code, []byte(test.body))
		keys := remote(t, e.URL, &c)
		if _, err := keys.Key(t.Context(), "one"); !errors.Is(err, guard.ErrKeysUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		e.answer(http.StatusOK, set(t, one()))
		if _, err := keys.Key(t.Context(), "one"); !errors.Is(err, guard.ErrKeysUnavailable) || e.asked.Load() != 1 {
			t.Errorf("%s: asked %d times at once, %v", name, e.asked.Load(), err)
		}
		c.pass(10 * time.Second)
		if _, err := keys.Key(t.Context(), "one"); err != nil {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

func TestManyTokensAskOnce(t *testing.T) {
	var c clock
	e := serve(t, one())
	keys := remote(t, e.URL, &c)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := keys.Key(t.Context(), "one"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := e.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestURLOfKeys(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://onceward.internal/.well-known/jwks.json": true,
		"http://127.0.0.1:7090/.well-known/jwks.json":     true,
		"http://localhost:7090/":                          true,
		"http://[::1]:7090/":                              true,
		"http://onceward.internal/":                       false,
		"http://127.0.0.1.evil.test/":                     false,
		"ftp://127.0.0.1/":                                false,
		"/etc/keys":                                       false,
		"":                                                false,
		"https://":                                        false,
		"http://a b":                                      false,
	} {
		if _, err := guard.NewRemoteKeys(guard.RemoteOptions{URL: url}); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}
