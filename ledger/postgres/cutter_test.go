package postgres_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// cut says where the cutter breaks a connection.
type cut int

const (
	nowhere cut = iota
	before      // the statement is not passed on
	after       // the statement is committed; its answer is not passed on
)

// cutter is a proxy between a store and its Postgres that breaks the
// connection around the next statement that is executed.
type cutter struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	next   cut
	closed bool // to all connections, after the cut
	open   map[net.Conn]struct{}
	cuts   int
	work   sync.WaitGroup
}

// throughCutter opens a store of a database through a cutter.
func throughCutter(t *testing.T, db ledgertest.Database, options ...postgres.Option) (*postgres.Store, *cutter) {
	t.Helper()
	u, err := url.Parse(db.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, target: u.Host, open: map[net.Conn]struct{}{}}
	c.work.Go(c.accept)
	t.Cleanup(func() { listener.Close(); c.work.Wait() })
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	query.Set("lock_timeout", "0")
	u.RawQuery = query.Encode()
	store, err := postgres.Open(t.Context(), u.String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store, c
}

// arm cuts at the next statement, and refuses connections from then on if the
// ledger is to stay away.
func (c *cutter) arm(where cut, staysAway bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.closed = where, staysAway
}

// repair accepts connections again and returns how many were cut.
func (c *cutter) repair() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.closed = nowhere, false
	return c.cuts
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		refuse := c.closed && c.next == nowhere
		c.mu.Unlock()
		server, err := net.Dial("tcp", c.target)
		if err != nil || refuse {
			client.Close()
			continue
		}
		c.work.Go(func() { c.serve(client, server) })
	}
}

// serve passes messages in both directions until one side ends or the cut.
func (c *cutter) serve(client, server net.Conn) {
	c.mu.Lock()
	c.open[client] = struct{}{}
	c.mu.Unlock()
	defer func() {
		client.Close()
		c.mu.Lock()
		delete(c.open, client)
		c.mu.Unlock()
	}()
	defer server.Close()
	committed := make(chan struct{}) // closed when the cut is to come with the next ReadyForQuery
	var answers sync.WaitGroup
	answers.Go(func() {
		defer client.Close()
		c.passAnswers(client, bufio.NewReader(server), committed)
	})
	c.passRequests(server, client, committed)
	select {
	case <-committed: // the other direction ends when the server has committed
	default:
		server.Close()
	}
	answers.Wait()
}

// passRequests passes the client's messages on. The first one has no type.
func (c *cutter) passRequests(server io.Writer, conn net.Conn, committed chan struct{}) {
	client := bufio.NewReader(conn)
	const execute, sync = 'E', 'S'
	for typed := false; ; typed = true {
		message, err := readMessage(client, typed)
		if err != nil {
			return
		}
		where := nowhere
		if typed && message[0] == execute {
			where = c.take(conn)
		}
		if where == before {
			return
		}
		if where == after {
			close(committed)
		}
		if _, err := server.Write(message); err != nil {
			return
		}
		if where == after {
			// The Sync behind it, and behind the rest of a batch, makes the server
			// commit.
			for message[0] != sync {
				if message, err = readMessage(client, true); err != nil {
					return
				}
				_, _ = server.Write(message)
			}
			return
		}
	}
}

// passAnswers passes the server's messages on, until the cut.
func (c *cutter) passAnswers(client io.Writer, server *bufio.Reader, committed chan struct{}) {
	const readyForQuery = 'Z'
	for {
		message, err := readMessage(server, true)
		if err != nil {
			return
		}
		select {
		case <-committed:
			if message[0] == readyForQuery {
				return
			}
		default:
			if _, err := client.Write(message); err != nil {
				return
			}
		}
	}
}

// take returns where to cut a connection, once. Where the ledger is to stay away
// the other ones end, too.
func (c *cutter) take(conn net.Conn) cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	where := c.next
	if where != nowhere {
		c.cuts++
	}
	if where != nowhere && c.closed {
		for other := range c.open {
			if other != conn {
				other.Close()
			}
		}
	}
	c.next = nowhere
	return where
}

// readMessage reads one message of Postgres's protocol 3.0: a type byte, except
// at the start, and a length that counts itself.
func readMessage(r *bufio.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4, 5)
	if typed {
		head = head[:5]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	message := make([]byte, len(head)+int(length)-4)
	copy(message, head)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}
