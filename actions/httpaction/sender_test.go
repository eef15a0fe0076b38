package httpaction_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/httpaction"
)

// Report R1: a provider that acts and then cuts the connection sees a request
// twice from Go's own client when the connection was warm and the request
// carries a key.
func TestSendActsOnceWhenTheConnectionBreaks(t *testing.T) {
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "idempotency-key", "PayPal-Request-Id"} {
		for _, body := range []string{`{"amount":1200}`, ""} {
			t.Run(fmt.Sprintf("%s/%d bytes", header, len(body)), func(t *testing.T) {
				p := serve(t, func(c net.Conn, n int) bool {
					return n != 1 && say(created)(c, n) // only the second request is cut
				})
				s := p.sender(t, nil)
				r := keyed(p.url)
				r.Header, r.Body = http.Header{header: {"k0"}}, []byte(body)

				if warm := s.Send(t.Context(), r); warm.Status != 201 || !warm.Complete {
					t.Fatalf("first send: %+v", warm)
				}
				cut := s.Send(t.Context(), r)
				wantSent(t, cut, httpaction.MaybeSent)
				if cut.Status != 0 || cut.Err == nil || cut.Phase != httpaction.PhaseHeaders {
					t.Errorf("the cut shows as %+v", cut)
				}
				if n := p.effects(); n != 2 {
					t.Errorf("two sends caused %d effects", n)
				}
				if n := p.connections(); n != 2 {
					t.Errorf("two sends used %d connections, want one each", n)
				}
				if got := p.request(t, 1).header.Get(header); got != "k0" {
					t.Errorf("the provider saw the key %q", got)
				}
			})
		}
	}
}

func TestSendFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{300, 301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			other := serve(t, say(created))
			p := serve(t, say(fmt.Sprintf("HTTP/1.1 %d Elsewhere\r\nLocation: %s/v1/refunds\r\nContent-Length: 0\r\n\r\n", status, other.url)))
			x := p.sender(t, func(o *httpaction.Options) { o.Origins = append(o.Origins, other.url) }).Send(t.Context(), keyed(p.url))
			wantSent(t, x, httpaction.MaybeSent)
			if x.Status != status || !x.Complete {
				t.Errorf("got %+v", x)
			}
			if n := other.connections(); n != 0 {
				t.Errorf("the second host was contacted %d times", n)
			}
			if n := p.effects(); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// Whatever is lost behind the first byte leaves doubt, and says where.
func TestSendReportsWhatWasLost(t *testing.T) {
	const head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
	tests := []struct {
		name     string
		do       behave
		status   int
		phase    httpaction.Phase
		body     string
		complete bool
	}{
		{name: "cut before any answer", do: sayThenCut(""), phase: httpaction.PhaseHeaders},
		{name: "half a status line", do: sayThenCut("HTTP/1.1 20"), phase: httpaction.PhaseHeaders},
		{name: "half the headers", do: sayThenCut("HTTP/1.1 201 Created\r\nContent-Ty"), phase: httpaction.PhaseHeaders},
		{name: "no HTTP at all", do: sayThenCut("ERR go away\r\n\r\n"), phase: httpaction.PhaseHeaders},
		{name: "interim answer only", do: sayThenCut("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"), phase: httpaction.PhaseHeaders},
		{name: "endless headers", do: sayThenCut("HTTP/1.1 201 Created\r\nX: " + strings.Repeat("x", 1<<18)), phase: httpaction.PhaseHeaders},
		{name: "length too long", do: sayThenCut(head + "Content-Length: 30\r\n\r\n{\"id\":"), status: 201, phase: httpaction.PhaseBody, body: `{"id":`},
		{name: "cut chunk", do: sayThenCut(head + "Transfer-Encoding: chunked\r\n\r\n6\r\n{\"id\":\r\n"), status: 201, phase: httpaction.PhaseBody, body: `{"id":`},
		{name: "switched protocols", do: sayThenCut("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), status: 101, phase: httpaction.PhaseBody},
		// Nothing in HTTP shows this cut; the JSON parser does.
		{name: "cut where closing ends the body", do: sayThenCut(head + "Connection: close\r\n\r\n{\"id\":"), status: 201, phase: httpaction.PhaseDone, body: `{"id":`, complete: true},
		{name: "interim, then whole", do: say("HTTP/1.1 100 Continue\r\n\r\n" + created), status: 201, phase: httpaction.PhaseDone, body: `{"id":"r1"}`, complete: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := serve(t, test.do)
			x := p.sender(t, nil).Send(t.Context(), keyed(p.url))
			wantSent(t, x, httpaction.MaybeSent)
			if x.Status != test.status || x.Phase != test.phase || string(x.Body) != test.body || x.Complete != test.complete {
				t.Errorf("got %d %s %q complete=%t (%s)", x.Status, x.Phase, x.Body, x.Complete, x.Evidence)
			}
			if x.Complete == (x.Err != nil) {
				t.Errorf("complete=%t with error %v", x.Complete, x.Err)
			}
			if n := p.effects(); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

func TestSendStopsWithItsContext(t *testing.T) {
	for name, do := range map[string]behave{
		"no answer":      hang(""),
		"slow headers":   hang("HTTP/1.1 201 Created\r\nContent-"),
		"slow body":      hang("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"),
		"interim answer": hang("HTTP/1.1 100 Continue\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, do)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			x := p.sender(t, nil).Send(ctx, keyed(p.url))
			if !errors.Is(x.Err, context.DeadlineExceeded) || x.Complete {
				t.Errorf("got %+v", x)
			}
			if p.effects() == 1 { // a slow machine may run out of time before
				wantSent(t, x, httpaction.MaybeSent)
			}
		})
	}
	t.Run("own time-out", func(t *testing.T) {
		p := serve(t, hang(""))
		x := p.sender(t, func(o *httpaction.Options) { o.Timeout = 50 * time.Millisecond }).Send(t.Context(), keyed(p.url))
		if !errors.Is(x.Err, context.DeadlineExceeded) {
			t.Errorf("got %+v", x)
		}
	})
}

func TestSendBoundsTheBody(t *testing.T) {
	endless := func(c net.Conn, _ int) bool {
		_, err := fmt.Fprint(c, "HTTP/1.1 201 Created\r\n\r\n{\"id\":\"r1\",\"note\":\"")
		for err == nil {
			_, err = fmt.Fprint(c, strings.Repeat("x", 4096))
		}
		return false
	}
	p := serve(t, endless)
	x := p.sender(t, func(o *httpaction.Options) { o.MaxResponseBytes = 1000 }).Send(t.Context(), keyed(p.url))
	wantSent(t, x, httpaction.MaybeSent)
	if x.Status != 201 || x.Complete || len(x.Body) != 1000 {
		t.Errorf("status %d, complete=%t, %d bytes (%s)", x.Status, x.Complete, len(x.Body), x.Evidence)
	}

	exact := serve(t, say("HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n"+strings.Repeat("x", 1000)))
	x = exact.sender(t, func(o *httpaction.Options) { o.MaxResponseBytes = 1000 }).Send(t.Context(), keyed(exact.url))
	if !x.Complete || len(x.Body) != 1000 {
		t.Errorf("a body of exactly the limit: complete=%t, %d bytes", x.Complete, len(x.Body))
	}
}

func TestSendWritesWhatWasRendered(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	p := serve(t, say(created))
	var dialled []string
	s := newSender(t, "http://provider.example", func(o *httpaction.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return dialTo(strings.TrimPrefix(p.url, "http://"))(ctx, network, address)
		}
		o.Credential = func(_ context.Context, r httpaction.Request) (http.Header, error) {
			return http.Header{"authorization": {"Bearer of " + r.Method}}, nil
		}
	})
	r := keyed("http://provider.example")
	if x := s.Send(t.Context(), r); x.Err != nil {
		t.Fatal(x.Err)
	}
	if len(dialled) != 1 || dialled[0] != "provider.example:80" {
		t.Errorf("dialled %q, want the provider itself", dialled)
	}
	got := p.request(t, 0)
	if got.method != "POST" || got.target != "/v1/refunds" || got.proto != "HTTP/1.1" || got.body != string(r.Body) {
		t.Errorf("the provider saw %+v", got)
	}
	want := http.Header{
		"Authorization": {"Bearer of POST"}, "Connection": {"close"}, "Content-Length": {"15"}, "Content-Type": {"application/json"},
		"Idempotency-Key": {"k0"}, "User-Agent": {"onceward"},
	}
	if fmt.Sprint(got.header) != fmt.Sprint(want) { // no Expect, Accept-Encoding, Cookie
		t.Errorf("headers %v\nwant    %v", got.header, want)
	}
	if len(r.Header) != 2 {
		t.Errorf("the caller's header was changed: %v", r.Header)
	}
}

func TestSendHidesOurCredentials(t *testing.T) {
	const secret = "sk_live_0123456789"
	body := `{"error":{"message":"bad key ` + secret + `"}}`
	p := serve(t, say(fmt.Sprintf("HTTP/1.1 401 No\r\nX-Seen: Bearer %s\r\nContent-Type: text/%s\r\nContent-Length: %d\r\n\r\n%s", secret, secret, len(body), body)))
	x := p.sender(t, func(o *httpaction.Options) {
		o.Credential = func(context.Context, httpaction.Request) (http.Header, error) {
			return http.Header{"Authorization": {"Bearer " + secret}}, nil
		}
	}).Send(t.Context(), keyed(p.url))
	if all := fmt.Sprint(string(x.Body), x.Header, x.Evidence); x.Status != 401 || strings.Contains(all, secret) {
		t.Errorf("status %d, the secret came back: %s", x.Status, all)
	}
}

func TestManySendsLeaveNothingBehind(t *testing.T) {
	var open sync.Map
	behaviours := []behave{say(created), sayThenCut(""), sayThenCut("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"), hang("HTTP/1.1 201 Created\r\n\r\n")}
	p := serve(t, func(c net.Conn, n int) bool { return behaviours[n%len(behaviours)](c, n) })
	s := p.sender(t, func(o *httpaction.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			open.Store(c, true)
			return &watched{Conn: c, closed: func() { open.Delete(c) }}, nil
		}
		o.Timeout = 2 * time.Second
		o.MaxResponseBytes = 100
	})
	const sends = 300
	var all sync.WaitGroup
	for i := range sends {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i)*time.Millisecond)
			defer cancel()
			if x := s.Send(ctx, keyed(p.url)); (x.Sent == httpaction.NotSent) != (x.BytesOffered == 0) {
				t.Errorf("%s with %d bytes", x.Sent, x.BytesOffered)
			}
		})
	}
	all.Wait()
	open.Range(func(c, _ any) bool {
		t.Errorf("connection %v is still open", c.(net.Conn).LocalAddr())
		return true
	})
	if n := p.effects(); n > sends {
		t.Errorf("%d sends caused %d effects", sends, n)
	}
}

type watched struct {
	net.Conn
	closed func()
}

func (w *watched) Close() error { w.closed(); return w.Conn.Close() }

func TestRead(t *testing.T) {
	p := serve(t, say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	s := p.sender(t, nil)
	get := httpaction.Request{Method: http.MethodGet, URL: p.url + "/v1/refunds?metadata=1"}
	for range 3 {
		if x := s.Read(t.Context(), get); x.Status != 200 || !x.Complete || string(x.Body) != "{}" {
			t.Fatalf("got %+v", x)
		}
	}
	if n := p.connections(); n != 1 {
		t.Errorf("three look-ups used %d connections", n)
	}
	if x := s.Read(t.Context(), keyed(p.url)); !errors.Is(x.Err, httpaction.ErrNotSendable) {
		t.Errorf("a POST as a look-up: %+v", x)
	}
	if n := p.effects(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	moved := serve(t, say("HTTP/1.1 307 Elsewhere\r\nLocation: "+p.url+"/\r\nContent-Length: 0\r\n\r\n"))
	get.URL = moved.url
	if x := moved.sender(t, nil).Read(t.Context(), get); x.Status != 307 {
		t.Errorf("a redirect of a look-up: %+v", x)
	}
}
