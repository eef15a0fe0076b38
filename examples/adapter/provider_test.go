package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/onceward/onceward/actions/httpaction"
)

// provider plays the loyalty service: grants, idempotency keys, a look-up. It
// can be told how to spoil the next answers.
type provider struct {
	URL string

	mu     sync.Mutex
	grants []map[string]any
	byKey  map[string]answer
	spoils []spoil
	posts  []post
}

// post is a write that arrived.
type post struct{ key, authorization, body string }

type answer struct{ sent, got string }

// spoil misbehaves in place of a good answer. It runs after the write was
// applied when applied is set, else instead of it.
type spoil struct {
	applied bool
	do      http.HandlerFunc
}

func startProvider(t *testing.T, spoils ...spoil) *provider {
	t.Helper()
	p := &provider{byKey: map[string]answer{}, spoils: spoils}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/grants", p.grant)
	mux.HandleFunc("GET /v1/grants", p.find)
	p.URL = serve(t, mux)
	return p
}

// adapter returns the adapter on this provider.
func (p *provider) adapter(t *testing.T) *points {
	t.Helper()
	a, err := newPoints(options{
		BaseURL: p.URL, Token: func() (string, error) { return "loyalty-token", nil }, PrivateNetworks: httpaction.Loopback(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (p *provider) grant(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	p.posts = append(p.posts, post{key, r.Header.Get("Authorization"), string(body)})
	var s spoil
	if len(p.spoils) > 0 {
		s, p.spoils = p.spoils[0], p.spoils[1:]
	}
	if s.do != nil && !s.applied {
		s.do(w, r)
		return
	}
	before, known := p.byKey[key]
	switch {
	case known && before.sent != string(body):
		reply(w, http.StatusConflict, `{"error":{"code":"key_reused","message":"The key came with another body."}}`)
		return
	case !known:
		var g map[string]any
		if err := json.Unmarshal(body, &g); err != nil {
			reply(w, http.StatusBadRequest, `{"error":{"code":"malformed","message":"Not JSON."}}`)
			return
		}
		g["id"], g["balance"] = fmt.Sprintf("gr_%d", len(p.grants)+1), 100
		p.grants = append(p.grants, g)
		got, _ := json.Marshal(g) // what came from JSON goes back
		before = answer{string(body), string(got)}
		p.byKey[key] = before
	}
	if s.do != nil {
		s.do(w, r)
		return
	}
	reply(w, http.StatusCreated, before.got)
}

func (p *provider) find(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.URL.Query().Get("operation_id")
	found := []map[string]any{}
	for _, g := range p.grants {
		if g["operation_id"] == id {
			found = append(found, g)
		}
	}
	page, _ := json.Marshal(map[string]any{"operation_id": id, "grants": found}) // as above
	reply(w, http.StatusOK, string(page))
}

// seen returns how many grants the provider holds, and the writes that came.
func (p *provider) seen() (grants int, posts []post) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.grants), append([]post(nil), p.posts...)
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that left wants nothing
}

// answering gives a fixed answer.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { reply(w, status, body) }
}

// hangUp ends the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// serve serves a handler that ends with the test, and returns its URL.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
