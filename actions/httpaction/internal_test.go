package httpaction

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// The transport writes from a goroutine of its own: what it writes after the
// exchange was judged must not get out.
func TestWireSeal(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	w := &wire{Conn: here}
	defer w.Close()
	go func() { _, _ = there.Read(make([]byte, 10)) }()
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if n, _ := w.seal(); n != 3 {
		t.Errorf("offered %d bytes, want 3", n)
	}
	if n, err := w.Write([]byte("late")); n != 0 || !errors.Is(err, errSealed) {
		t.Errorf("a late write: %d, %v", n, err)
	}
	if n, _ := w.seal(); n != 3 {
		t.Errorf("a late write was counted: %d", n)
	}
}

func TestIsPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false,
		"::": false, "::1": false, "fe80::1": false, "fd00::1": false, "ff02::1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: public %t, want %t", address, got, want)
		}
	}
	check := guard(Loopback())
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "[::ffff:127.0.0.1]:80": true, "[::1]:80": true, "10.0.0.1:80": false, "[::ffff:10.0.0.1]:80": false,
		"[fe80::1%eth0]:80": false, "name:80": false,
	} {
		if err := check(t.Context(), "tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                    "plain",
		"two\r\nlines\tand\x00NUL": "two lines and NUL",
		"bad \xff utf8":            "bad \uFFFD utf8",
		"right\u202eleft":          "right left",
		"":                         "",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	long := oneLine(strings.Repeat("é", 1<<20))
	if len(long) > maxTextBytes || !utf8.ValidString(long) {
		t.Errorf("a long text: %d bytes", len(long))
	}
}

func TestSnakeCode(t *testing.T) {
	for in, want := range map[string]string{
		"charge_not_found": "charge_not_found", "InvalidAmount!": "invalidamount", "a - b": "a_b", "ÄÖ": "", "\xff\xfe": "",
	} {
		if got := snakeCode(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestWireIsLate(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	for name, until := range map[string]time.Time{
		"by both clocks":     time.Now().Add(-time.Second),
		"by the wall's only": time.Now().Add(-time.Second).Round(0),
	} {
		w := &wire{Conn: here, until: until}
		if n, err := w.Write([]byte("late")); n != 0 || !errors.Is(err, errLate) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if n, _ := w.seal(); n != 0 {
			t.Errorf("%s: %d bytes are called offered", name, n)
		}
	}
	if (&wire{Conn: here, until: time.Now().Add(time.Hour)}).late() {
		t.Error("late an hour before the deadline")
	}
}

// stopped is a context as a process sees it that was stopped and goes on: its time is
// over, and no timer has said so yet.
type stopped struct{ context.Context }

func (stopped) Deadline() (time.Time, bool) { return time.Now().Add(-time.Minute), true }

func TestSendAfterTheProcessWasStopped(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		n, _ := conn.Read(make([]byte, 1))
		_ = conn.Close()
		received <- n
	}()
	origin := "http://" + listener.Addr().String()
	s, err := NewSender(Options{Origins: []string{origin}, PrivateNetworks: Loopback(), Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		return net.Dial(network, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	x := s.Send(stopped{t.Context()}, Request{Method: "POST", URL: origin + "/v1/refunds", Body: []byte(`{}`)})
	if x.Sent != NotSent || x.BytesOffered != 0 || !errors.Is(x.Err, errLate) {
		t.Errorf("the exchange is %+v", x)
	}
	if n := <-received; n != 0 {
		t.Errorf("%d bytes left after the deadline", n)
	}
}
