package scenarios

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// where says on which side of a commit a connection dies.
type where string

const (
	// beforeCommit: the statements ran, and the Sync that would commit them did not
	// arrive. Postgres rolls them back.
	beforeCommit where = "before the commit"
	// afterCommit: Postgres has committed, and nothing of its answers arrives.
	afterCommit where = "after the commit"
)

// cutter is a way to Postgres that knows its protocol, and ends a connection exactly
// in a commit. Toxiproxy cannot: it sees bytes.
type cutter struct {
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	side   where
	table  string // the statement that is waited for begins a write to it
	rest   int    // cuts to come
	done   int
	closed bool
	open   map[net.Conn]struct{}
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, target: target, open: map[net.Conn]struct{}{}}
	c.work.Go(c.accept)
	t.Cleanup(func() {
		listener.Close()
		c.mu.Lock()
		c.closed = true
		for conn := range c.open {
			conn.Close()
		}
		c.mu.Unlock()
		c.work.Wait()
	})
	return c
}

func (c *cutter) address() string { return c.listener.Addr().String() }

// arm cuts the next n transactions that hold a statement with this text.
func (c *cutter) arm(side where, statement string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.side, c.table, c.rest, c.done = side, statement, n, 0
}

// cuts is how many there were since arm.
func (c *cutter) cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// take returns on which side to cut a transaction that ran these statements, or "".
func (c *cutter) take(statements []string) where {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sql := range statements {
		if c.rest > 0 && strings.Contains(sql, c.table) {
			c.rest--
			c.done++
			return c.side
		}
	}
	return ""
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.target)
		if err != nil {
			client.Close()
			continue
		}
		c.mu.Lock()
		c.open[client] = struct{}{}
		if c.closed {
			client.Close()
		}
		c.mu.Unlock()
		c.work.Go(func() {
			c.serve(client, server)
			client.Close()
			server.Close()
			c.mu.Lock()
			delete(c.open, client)
			c.mu.Unlock()
		})
	}
}

// serve passes messages on until one side ends or is cut.
func (c *cutter) serve(client, server net.Conn) {
	withhold := make(chan struct{}) // closed: answers are not passed on any more
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		defer client.Close()
		in := bufio.NewReader(server)
		for {
			message, err := readMessage(in, true)
			if err != nil {
				return
			}
			select {
			case <-withhold:
				if message[0] == 'Z' { // ReadyForQuery: it is committed
					return
				}
				continue
			default:
			}
			if _, err := client.Write(message); err != nil {
				return
			}
		}
	}()
	c.requests(bufio.NewReader(client), server, withhold)
	select {
	case <-withhold:
		<-answers // it ends with the commit
	default:
		server.Close()
		<-answers
	}
}

// requests passes what the client says on.
func (c *cutter) requests(in *bufio.Reader, server net.Conn, withhold chan struct{}) {
	names := map[string]string{} // prepared statements
	var batch []string           // what was executed since the last Sync
	for typed := false; ; typed = true {
		message, err := readMessage(in, typed)
		if err != nil {
			return
		}
		var kind byte
		if typed {
			kind = message[0]
		}
		switch kind {
		case 'P':
			var parse pgproto3.Parse
			if parse.Decode(message[5:]) == nil {
				names[parse.Name] = parse.Query
			}
		case 'B':
			var bind pgproto3.Bind
			if bind.Decode(message[5:]) == nil {
				batch = append(batch, names[bind.PreparedStatement])
			}
		case 'S':
			cut := c.take(batch)
			batch = nil
			if cut == beforeCommit {
				return
			}
			if cut == afterCommit {
				close(withhold)
				_, _ = server.Write(message) // if it does not arrive, nothing is committed, and that is a cut too
				return
			}
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// readMessage reads one message of Postgres's protocol 3.0: a type byte, except at
// the start, and a length that counts itself.
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
