package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
)

// forged is a source to which nothing is genuine.
type forged struct{}

func (forged) Provider() string { return "fakemail" }
func (forged) Events(string, actions.Message, time.Time) ([]actions.Event, error) {
	return nil, fmt.Errorf("no signature")
}

// What strangers send to the listeners of webhooks, of public keys and of those who run
// the process is cut off in time and in size; who behaves is answered meanwhile.
func TestHTTPListeners(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	hooks, keys, admin := listen(t), listen(t), listen(t)
	w.Start(t, func(c *app.Config) {
		c.Webhooks, c.HTTP, c.Admin, c.MaxConnections = hooks, keys, admin, 200
		c.Source = func(_, provider string) actions.Source {
			if provider == "fakemail" {
				return forged{}
			}
			return nil
		}
	})
	const post = "POST /v1/webhooks/acme/fakemail HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		to     net.Listener
		send   string
		then   string // again and again
		status int    // zero: cut off in time, whatever is said
	}{
		"webhooks: no headers":          {to: hooks, send: "POST /v1"},
		"keys: no headers":              {to: keys, send: "GET /.well"},
		"webhooks: headers without end": {to: hooks, send: post, then: "X-Filler: " + strings.Repeat("f", 1000) + "\r\n", status: http.StatusRequestHeaderFieldsTooLarge},
		"keys: headers without end": {to: keys, send: "GET /.well-known/jwks.json HTTP/1.1\r\nHost: x\r\n",
			then: "X-Filler: " + strings.Repeat("f", 1000) + "\r\n", status: http.StatusRequestHeaderFieldsTooLarge},
		"webhooks: a body beyond the limit": {to: hooks, send: post + "Content-Length: 999999999\r\n\r\n",
			then: strings.Repeat("b", 64<<10), status: http.StatusRequestEntityTooLarge},
		"webhooks: a body without end": {to: hooks, send: post + "Transfer-Encoding: chunked\r\n\r\n",
			then: "10000\r\n" + strings.Repeat("b", 64<<10) + "\r\n", status: http.StatusRequestEntityTooLarge},
		"admin: no headers": {to: admin, send: "GET /readyz"},
		"admin: headers without end": {to: admin, send: "GET /readyz HTTP/1.1\r\nHost: x\r\n",
			then: "X-Filler: " + strings.Repeat("f", 1000) + "\r\n", status: http.StatusRequestHeaderFieldsTooLarge},
		// It is answered at once: nothing there reads a body.
		"admin: a body without end": {to: admin, send: "GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
			then: "10000\r\n" + strings.Repeat("b", 64<<10) + "\r\n", status: http.StatusOK},
		"webhooks: two lengths": {to: hooks, send: post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nb", status: http.StatusBadRequest},
		"webhooks: not HTTP":    {to: hooks, send: "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", status: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Many at once hold up nobody.
			conns := make([]net.Conn, 20)
			for i := range conns {
				conns[i] = dial(t, c.to)
				if _, err := io.WriteString(conns[i], c.send); err != nil {
					t.Fatal(err)
				}
			}
			wantAnswered(t, hooks, keys, admin)
			for _, conn := range conns {
				if c.then != "" {
					go func() {
						for range 200 { // more than any limit; an error is what is wanted
							if _, err := io.WriteString(conn, c.then); err != nil {
								return
							}
						}
					}()
				}
			}
			for _, conn := range conns {
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				switch {
				case err != nil && c.status == 0 && !timedOut(err):
				case err != nil && c.then != "" && !timedOut(err): // the answer is lost where the rest of the request is thrown away
				case err != nil:
					t.Fatal(err)
				case c.status == 0 && (resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode == http.StatusBadRequest):
				case resp.StatusCode != c.status:
					t.Fatalf("answered %s, want %d", resp.Status, c.status)
				}
				if _, err := io.Copy(io.Discard, conn); timedOut(err) {
					t.Fatal("the server keeps the connection")
				}
			}
		})
	}
}

func timedOut(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // as it comes from the connection
	return ok && e.Timeout()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(apptest.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// wantAnswered fails the test unless all listeners answer, each with a connection
// of its own.
func wantAnswered(t *testing.T, hooks, keys, admin net.Listener) {
	t.Helper()
	for range 3 {
		for request, to := range map[string]net.Listener{
			"POST /v1/webhooks/acme/fakemail HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}": hooks,
			"GET /.well-known/jwks.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                             keys,
			"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                            admin,
		} {
			conn := dial(t, to)
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || (resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized) {
				t.Fatalf("beside the hostile one: %v %v", resp, err)
			}
			_ = resp.Body.Close()
		}
	}
}
