package fakeprovider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/fakeprovider"
)

func TestMain(m *testing.M) {
	// After refusing a body that is too large, net/http lingers for half a
	// second on a connection that Server.Close no longer waits for.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// bench is a provider on a port and a client that never resends.
type bench struct {
	t      *testing.T
	p      *fakeprovider.Provider
	s      *fakeprovider.Server
	client *http.Client
}

func start(t *testing.T, opts fakeprovider.Options) *bench {
	t.Helper()
	p := fakeprovider.New(opts)
	s, err := fakeprovider.Start(p, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &bench{t: t, p: p, s: s, client: client}
}

// reply is what a client sees.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	err     error // no answer
	bodyErr error // answer, but its body ended badly
}

func (r reply) String() string {
	return fmt.Sprintf("status %d, err %v, body err %v, body %.200q", r.status, r.err, r.bodyErr, r.body)
}

// object decodes the reply's body.
func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("body is no object: %v; %v", err, r)
	}
	return v
}

func (r reply) code(t *testing.T) string {
	t.Helper()
	fields, _ := r.object(t)["error"].(map[string]any)
	code, _ := fields["code"].(string)
	return code
}

func (b *bench) send(ctx context.Context, method, target, key, body string) reply {
	req, err := http.NewRequestWithContext(ctx, method, b.s.URL()+target, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+fakeprovider.DefaultToken)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return b.do(req)
}

func (b *bench) do(req *http.Request) reply {
	resp, err := b.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	read, bodyErr := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: read, bodyErr: bodyErr}
}

func (b *bench) post(target, key, body string) reply {
	return b.send(b.t.Context(), http.MethodPost, target, key, body)
}

func (b *bench) get(target string) reply {
	return b.send(b.t.Context(), http.MethodGet, target, "", "")
}

// background sends without waiting; the reply comes on the channel.
func (b *bench) background(ctx context.Context, target, key, body string) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- b.send(ctx, http.MethodPost, target, key, body) }()
	return out
}

func (b *bench) wantEffects(n int) {
	b.t.Helper()
	if got := b.p.Effects(); len(got) != n {
		b.t.Errorf("%d effects, want %d: %+v\nrequests: %+v", len(got), n, got, b.p.Requests())
	}
}

func (b *bench) wantStatus(r reply, status int) {
	b.t.Helper()
	if r.err != nil || r.status != status {
		b.t.Errorf("want status %d, got %v", status, r)
	}
}

// found counts the objects of a list.
func (b *bench) found(target string) int {
	b.t.Helper()
	r := b.get(target)
	b.wantStatus(r, http.StatusOK)
	data, _ := r.object(b.t)["data"].([]any)
	return len(data)
}

// deadline bounds a wait of a test.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wait(t *testing.T, ch <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-deadline(t).Done():
		t.Fatalf("%s did not happen", what)
	}
}

func refund(charge, operation string) string {
	return fmt.Sprintf(`{"charge_id":%q,"amount":4900,"currency":"usd","reason":"customer_requested","metadata":{"operation_id":%q}}`, charge, operation)
}

func mail(to, operation string) string {
	return fmt.Sprintf(`{"to":%q,"template":"invoice","invoice_id":"inv_1","revision":2,"metadata":{"operation_id":%q}}`, to, operation)
}

func contact(external, operation string) string {
	return fmt.Sprintf(`{"external_id":%q,"email":"dana@example.test","name":"Dana","metadata":{"operation_id":%q}}`, external, operation)
}
