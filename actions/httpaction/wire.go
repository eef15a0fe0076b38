package httpaction

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errSealed     = errors.New("the exchange is over")
	errLate       = errors.New("the time for the exchange was over before this could be sent")
	errSecondDial = errors.New("a second connection for one attempt is refused")
)

// wire is the connection of one exchange. It sits above TLS and decides what
// "sent" means: it counts the bytes that it is asked to write, before it tries.
//
// It can be sealed. The transport writes from a goroutine of its own, which may
// start after the caller was told that time is up; without the seal, "0 bytes
// offered" could be read and then become false.
//
// It lets nothing through after a deadline either. A context says that its time is up
// when a timer has run, and a process that was stopped (SIGSTOP, a virtual machine that
// moves) may go on with a write before its timers do: long after somebody else has
// looked, found nothing, and sent it again.
type wire struct {
	net.Conn
	until   time.Time // zero: no deadline
	mu      sync.Mutex
	offered int64
	sealed  bool
	failed  bool // a write failed
}

// Write offers p to the connection, or refuses it when the wire is sealed.
func (w *wire) Write(p []byte) (int, error) {
	if w.late() {
		return 0, errLate
	}
	if !w.offer(len(p)) {
		return 0, errSealed
	}
	n, err := w.Conn.Write(p)
	if err != nil {
		w.mu.Lock()
		w.failed = true
		w.mu.Unlock()
	}
	return n, err
}

// late reports whether the deadline is over, by either clock: the monotonic one stands
// still while a machine sleeps.
func (w *wire) late() bool {
	now := time.Now()
	return !w.until.IsZero() && (now.After(w.until) || now.Round(0).After(w.until.Round(0)))
}

func (w *wire) offer(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.sealed {
		w.offered += int64(n)
	}
	return !w.sealed
}

// seal lets no further byte through and returns how many were offered, and
// whether writing one failed.
func (w *wire) seal() (offered int64, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sealed = true
	return w.offered, w.failed
}

// roundTrip writes req on the wire and returns the answer's head. The transport
// is made for this one exchange and can get this one connection: whatever its
// rules for sending again are in this version of Go, it has nothing to send on.
// There is no http.Client, so that no redirect is followed and no cookie kept.
func (w *wire) roundTrip(req *http.Request) (*http.Response, error) {
	var taken atomic.Bool
	hand := func(context.Context, string, string) (net.Conn, error) {
		if taken.Swap(true) {
			return nil, errSecondDial
		}
		return w, nil
	}
	t := newTransport(hand)
	t.DisableKeepAlives = true
	return t.RoundTrip(req)
}

// maxResponseHeaderBytes bounds status line and headers, interim ones too.
const maxResponseHeaderBytes = 64 << 10

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newTransport returns a transport that speaks HTTP/1.1 only, over whatever
// connect gives it: an HTTP/2 stream that is reset can be sent again by the
// library, even a POST. connect does the TLS handshake itself.
func newTransport(connect dialFunc) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // never from the environment
		DialContext:            connect,
		DialTLSContext:         connect,
		Protocols:              protocols,
		DisableCompression:     true, // the body's length and bytes are evidence
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
	}
}
