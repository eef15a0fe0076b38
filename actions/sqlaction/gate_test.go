package sqlaction_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// passage says what a gate does with the next COMMIT.
type passage int

const (
	open     passage = iota
	drop             // break the connection; the server never sees it
	swallow          // pass it on, wait for the answer, break the connection
	hold             // pass it on when release is called, whatever the client does
	notReady         // break the connection at the first message of any kind
)

// gate is a proxy in front of a Postgres that watches for COMMIT.
type gate struct {
	listener net.Listener
	server   string
	network  string
	held     chan struct{} // gets a value when a COMMIT is held
	released chan struct{} // closed by release

	mu    sync.Mutex
	next  []passage
	conns []net.Conn
	work  sync.WaitGroup
}

// newGate returns a gate and the URL through it.
func newGate(t *testing.T, raw string) (*gate, string) {
	t.Helper()
	config, err := pgconn.ParseConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{held: make(chan struct{}, 1), released: make(chan struct{})}
	g.network, g.server = pgconn.NetworkAddress(config.Host, config.Port)
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	g.work.Go(g.accept)
	t.Cleanup(func() {
		g.listener.Close()
		g.release()
		g.mu.Lock()
		for _, c := range g.conns {
			c.Close()
		}
		g.mu.Unlock()
		g.work.Wait()
	})
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = g.listener.Addr().String()
	q := u.Query()
	q.Del("host")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return g, u.String()
}

// set says what becomes of the next COMMITs, in turn; then the gate is open.
func (g *gate) set(next ...passage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = next
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.released:
	default:
		close(g.released)
	}
}

func (g *gate) take(commit bool) passage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.next) == 0 || !commit && g.next[0] != notReady {
		return open
	}
	p := g.next[0]
	g.next = g.next[1:]
	return p
}

func (g *gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(g.network, g.server)
		if err != nil {
			client.Close()
			continue
		}
		g.mu.Lock()
		g.conns = append(g.conns, client, server)
		g.mu.Unlock()
		deaf := make(chan struct{}) // closed: answers are read and not passed on
		answered := make(chan struct{}, 1)
		g.work.Go(func() { answers(client, server, deaf, answered) })
		g.work.Go(func() { g.requests(client, server, deaf, answered) })
	}
}

// answers passes what the server says until deaf is closed.
func answers(client, server net.Conn, deaf <-chan struct{}, answered chan<- struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			client.Close()
			close(answered)
			return
		}
		select {
		case <-deaf:
			select {
			case answered <- struct{}{}:
			default:
			}
		default:
			_, _ = client.Write(buf[:n]) // a client that has left does not end the server
		}
	}
}

// requests passes what the client says, message by message.
func (g *gate) requests(client, server net.Conn, deaf chan struct{}, answered <-chan struct{}) {
	defer client.Close()
	defer server.Close()
	started := false
	for {
		message, err := readMessage(client, started)
		if err != nil {
			return
		}
		commit := started && message[0] == 'Q' && strings.HasPrefix(string(message[5:]), "commit")
		started = true
		switch g.take(commit) {
		case drop, notReady:
			return
		case swallow:
			close(deaf)
			_, _ = server.Write(message)
			<-answered
			return
		case hold:
			g.held <- struct{}{}
			<-g.released
		case open:
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// readMessage reads one message of the protocol; the first of a connection has
// no type.
func readMessage(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 5)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	message := make([]byte, len(head)+int(length)-4)
	_, err := io.ReadFull(r, message[copy(message, head):])
	return message, err
}
