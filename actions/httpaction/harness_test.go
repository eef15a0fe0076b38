package httpaction_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/actions/httpaction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is a raw HTTP/1.1 server that acts on every whole request (one
// effect each) and then does to the connection whatever the test wants.
type provider struct {
	url string

	mu       sync.Mutex
	conns    int
	requests []seen
}

type seen struct {
	method, target, proto string
	header                http.Header
	body                  string
}

// behave answers one request on c; n counts requests from 0. The connection
// stays open when it returns true.
type behave func(c net.Conn, n int) bool

// say answers text and keeps the connection open; sayThenCut closes it.
func say(text string) behave {
	return func(c net.Conn, _ int) bool { _, err := io.WriteString(c, text); return err == nil }
}

func sayThenCut(text string) behave {
	return func(c net.Conn, _ int) bool { _, _ = io.WriteString(c, text); return false }
}

// hang says text and then nothing until the client goes away.
func hang(text string) behave {
	return func(c net.Conn, _ int) bool {
		_, _ = io.WriteString(c, text)
		_, _ = io.Copy(io.Discard, c)
		return false
	}
}

func serve(t *testing.T, b behave) *provider {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, "http", b)
}

func serveOn(t *testing.T, l net.Listener, scheme string, b behave) *provider {
	t.Helper()
	p := &provider{url: scheme + "://" + l.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns++
			p.mu.Unlock()
			open.Go(func() { p.handle(c, b) })
		}
	})
	t.Cleanup(func() { l.Close(); open.Wait() })
	return p
}

func (p *provider) handle(c net.Conn, b behave) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		n := len(p.requests)
		p.requests = append(p.requests, seen{req.Method, req.RequestURI, req.Proto, req.Header, string(body)})
		p.mu.Unlock()
		if !b(c, n) {
			return
		}
	}
}

func (p *provider) effects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

func (p *provider) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns
}

func (p *provider) request(t *testing.T, n int) seen {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n >= len(p.requests) {
		t.Fatalf("the provider saw %d requests, want more than %d", len(p.requests), n)
	}
	return p.requests[n]
}

// sender makes a sender to p; change may alter its options.
func (p *provider) sender(t *testing.T, change func(*httpaction.Options)) *httpaction.Sender {
	t.Helper()
	return newSender(t, p.url, change)
}

func newSender(t *testing.T, origin string, change func(*httpaction.Options)) *httpaction.Sender {
	t.Helper()
	o := httpaction.Options{Origins: []string{origin}, PrivateNetworks: httpaction.Loopback(), Timeout: 10 * time.Second}
	if change != nil {
		change(&o)
	}
	s, err := httpaction.NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// keyed is a write that Go's transport would gladly send again.
func keyed(url string) httpaction.Request {
	return httpaction.Request{
		Method: http.MethodPost,
		URL:    url + "/v1/refunds",
		Header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k0"}},
		Body:   []byte(`{"amount":1200}`),
	}
}

const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"id\":\"r1\"}"

// wantSent checks the one thing that must never be wrong.
func wantSent(t *testing.T, x httpaction.Exchange, want httpaction.Sent) {
	t.Helper()
	if x.Sent != want {
		t.Errorf("%s, want %s (%s)", x.Sent, want, x.Evidence)
	}
	if (x.Sent == httpaction.NotSent) != (x.BytesOffered == 0) {
		t.Errorf("%s, but %d bytes were offered", x.Sent, x.BytesOffered)
	}
}

func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
