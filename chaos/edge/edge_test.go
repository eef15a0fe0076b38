package edge_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/edge"
)

const (
	patience = 10 * time.Second
	// silence is how long a test listens before it believes that nothing comes.
	silence = 100 * time.Millisecond
)

// echo is an upstream that sends back what it gets, after its name.
func echo(t *testing.T, name string) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, name)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func open(t *testing.T, upstream string) *edge.Edge {
	t.Helper()
	edges, err := edge.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(edges.Close)
	x, err := edges.Open("test", upstream)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// peer is a client's connection.
type peer struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, x *edge.Edge) peer {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", x.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return peer{conn, t}
}

func (p peer) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Fatal(err)
	}
}

// read returns what comes until there are n bytes, the end, or the time is over.
func (p peer) read(n int, limit time.Duration) (string, error) {
	p.t.Helper()
	if err := p.SetReadDeadline(time.Now().Add(limit)); err != nil {
		p.t.Fatal(err)
	}
	buf := make([]byte, n)
	n, err := io.ReadFull(p, buf)
	return string(buf[:n]), err
}

func (p peer) want(text string) {
	p.t.Helper()
	if got, err := p.read(len(text), patience); got != text || err != nil {
		p.t.Fatalf("read %q, %v; want %q", got, err, text)
	}
}

func (p peer) wantSilence() {
	p.t.Helper()
	if got, err := p.read(1, silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("read %q, %v; want nothing, and no end", got, err)
	}
}

// wantEnd reads up to the end of the connection and returns what came.
func (p peer) wantEnd() string {
	p.t.Helper()
	got, err := p.read(1<<20, patience)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("the connection is open; it gave %q, %v", got, err)
	}
	return got
}

func apply(t *testing.T, x *edge.Edge, f edge.Fault) (heal func()) {
	t.Helper()
	heal, err := x.Apply(f)
	if err != nil {
		t.Fatal(err)
	}
	return heal
}

func TestKinds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	tests := map[edge.Kind]func(t *testing.T, x *edge.Edge, old peer){
		edge.Latency: func(t *testing.T, x *edge.Edge, old peer) {
			heal := apply(t, x, edge.Fault{Kind: edge.Latency, Side: edge.ToClient, Delay: 150 * time.Millisecond})
			began := time.Now()
			old.send("slow")
			old.want("slow")
			if took := time.Since(began); took < 100*time.Millisecond {
				t.Errorf("the answer took %s", took)
			}
			heal()
			old.send("fast")
			old.want("fast")
		},
		edge.Cut: func(t *testing.T, x *edge.Edge, old peer) {
			heal := apply(t, x, edge.Fault{Kind: edge.Cut})
			again := apply(t, x, edge.Fault{Kind: edge.Cut})
			old.wantEnd()
			for range 2 {
				if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", x.Address()); err == nil {
					conn.Close()
					t.Error("a connection was accepted")
				}
				heal() // of one of the two, twice
			}
			again()
		},
		edge.HalfOpen: func(t *testing.T, x *edge.Edge, old peer) {
			heal := apply(t, x, edge.Fault{Kind: edge.HalfOpen})
			old.send("lost")
			old.wantSilence()
			dial(t, x).wantSilence()
			heal()
			old.wantEnd()
		},
		edge.SlowClose: func(t *testing.T, x *edge.Edge, old peer) {
			apply(t, x, edge.Fault{Kind: edge.SlowClose, Delay: 200 * time.Millisecond})
			// The peer ends its side; its end is passed on, and comes back late.
			tcp, ok := old.Conn.(*net.TCPConn)
			if !ok {
				t.Fatalf("%T", old.Conn)
			}
			began := time.Now()
			if err := tcp.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			old.wantEnd()
			if took := time.Since(began); took < 150*time.Millisecond {
				t.Errorf("the end came after %s", took)
			}
		},
		edge.Bandwidth: func(t *testing.T, x *edge.Edge, old peer) {
			apply(t, x, edge.Fault{Kind: edge.Bandwidth, Side: edge.ToServer, Rate: 1000})
			began := time.Now()
			old.send(long)
			old.want(long)
			if took := time.Since(began); took < 200*time.Millisecond {
				t.Errorf("300 bytes took %s at 1000 a second", took)
			}
		},
		edge.Reset: func(t *testing.T, x *edge.Edge, old peer) {
			apply(t, x, edge.Fault{Kind: edge.Reset, Side: edge.ToClient})
			old.send("lost")
			if got := old.wantEnd(); got != "" {
				t.Errorf("got %q", got)
			}
			// A new one can be reset before its dial has returned.
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", x.Address())
			if err != nil {
				return
			}
			defer conn.Close()
			if got := (peer{conn, t}).wantEnd(); got != "" {
				t.Errorf("a new connection gave %q", got)
			}
		},
		edge.Truncate: func(t *testing.T, x *edge.Edge, old peer) {
			apply(t, x, edge.Fault{Kind: edge.Truncate, Side: edge.ToClient, Bytes: 10})
			old.send(long)
			if got := old.wantEnd(); got != long[:10] {
				t.Errorf("got %q, want 10 bytes", got)
			}
		},
		edge.Slice: func(t *testing.T, x *edge.Edge, old peer) {
			apply(t, x, edge.Fault{Kind: edge.Slice})
			old.send(long)
			old.want(long)
		},
	}
	for _, kind := range edge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test, ok := tests[kind]
			if !ok {
				t.Fatal("no test")
			}
			x := open(t, echo(t, "A"))
			old := dial(t, x)
			old.want("A")
			test(t, x, old)
		})
	}
}

// After every kind, and its end, the edge is as it was.
func TestHeal(t *testing.T) {
	t.Parallel()
	for _, kind := range edge.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			x := open(t, echo(t, "A"))
			address := x.Address()
			for range 3 {
				busy := dial(t, x)
				busy.want("A")
				heal := apply(t, x, edge.Fault{Kind: kind})
				_, _ = io.WriteString(busy, strings.Repeat("x", 1000)) // into a fault
				heal()
			}
			fresh := dial(t, x)
			fresh.want("A")
			fresh.send("hello")
			fresh.want("hello")
			if x.Address() != address {
				t.Errorf("the address is %s and was %s", x.Address(), address)
			}
		})
	}
}

func TestSetUpstream(t *testing.T) {
	t.Parallel()
	x := open(t, echo(t, "A"))
	old := dial(t, x)
	old.want("A")
	if err := x.SetUpstream(echo(t, "B")); err != nil {
		t.Fatal(err)
	}
	old.wantEnd()
	dial(t, x).want("B")
	heal := apply(t, x, edge.Fault{Kind: edge.Cut})
	if err := x.SetUpstream(echo(t, "C")); err != nil {
		t.Fatal(err)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", x.Address()); err == nil {
		conn.Close()
		t.Error("moving the upstream healed a cut")
	}
	heal()
	dial(t, x).want("C")
	// One that is away is no error before somebody wants it.
	if err := x.SetUpstream("127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	dial(t, x).wantEnd()
}

// A link whose client left while bytes were under way makes Toxiproxy wait for
// ever. Faults come and go while clients do that.
func TestFaultsUnderLoad(t *testing.T) {
	t.Parallel()
	x := open(t, echo(t, ""))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		text := strings.Repeat("x", 1<<16)
		for {
			select {
			case <-stop:
				return
			default:
			}
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", x.Address())
			if err != nil {
				continue
			}
			_ = conn.SetDeadline(time.Now().Add(time.Millisecond))
			_, _ = io.WriteString(conn, text+text)
			conn.Close() // with bytes unread: RST
		}
	}()
	for range 10 {
		for _, kind := range edge.Kinds() {
			apply(t, x, edge.Fault{Kind: kind})()
		}
	}
	close(stop)
	<-done
	fresh := dial(t, x)
	fresh.send("hello")
	fresh.want("hello")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	edges, err := edge.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := edges.Open("x", "nowhere"); err == nil {
		t.Error("an upstream without a port was taken")
	}
	x, err := edges.Open("x", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []edge.Fault{
		{},
		{Kind: "fire"},
		{Kind: edge.HalfOpen, Side: "left"},
		{Kind: edge.Latency, Delay: -1},
		{Kind: edge.Latency, Delay: 10, Jitter: 10},
	} {
		if _, err := x.Apply(f); err == nil {
			t.Errorf("%+v was applied", f)
		}
	}
	heal := apply(t, x, edge.Fault{Kind: edge.Cut})
	edges.Close()
	heal()
	if _, err := x.Apply(edge.Fault{Kind: edge.Latency}); !errors.Is(err, edge.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := x.SetUpstream("127.0.0.1:1"); !errors.Is(err, edge.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := edges.Open("y", "127.0.0.1:1"); !errors.Is(err, edge.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
