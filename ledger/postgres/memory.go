package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// memory is what a connection keeps between transactions. Their rows are hundreds of
// kB, which are written twice: as parameters, and as the messages that carry those. To
// grow slices for them each time made three times as much garbage as there were bytes.
//
// It belongs to whoever uses the connection. What is in it was copied (parameters) or
// is sent (messages) when the driver takes the next statement.
type memory struct {
	parameters []byte
	messages   outbox
	written    int // bytes of parameters since the last makeRoom
}

// maxKept is how large each of the two may be: enough for a full batch of usual
// operations. More is made for one transaction, and dropped.
const maxKept = 1 << 20

// keptMemory is the place of a connection's memory in its custom data.
const keptMemory = "onceward.memory"

// remembers gives a connection its memory.
func remembers(conn *pgx.Conn) *memory {
	m := &memory{}
	conn.PgConn().CustomData()[keptMemory] = m
	return m
}

// larger returns parameters, where there is more room for them in what is kept.
func (m *memory) larger(parameters []byte) []byte {
	if cap(parameters) >= cap(m.parameters) {
		return parameters
	}
	return append(m.parameters[:0], parameters...)
}

// keep keeps parameters, of which so many bytes are new, for the next ones.
func (m *memory) keep(parameters []byte, written int) {
	m.written += written
	if cap(parameters) > cap(m.parameters) && cap(parameters) <= maxKept {
		m.parameters = parameters
	}
}

// makeRoom lets a connection write its next messages into what is kept, where they
// are not larger than the last ones.
func makeRoom(conn *pgx.Conn) {
	m, ok := conn.PgConn().CustomData()[keptMemory].(*memory)
	if !ok {
		return
	}
	const aroundParameters = 1 << 10
	if size := m.written + aroundParameters; size <= maxKept && cap(m.messages) < size {
		m.messages = make(outbox, 0, size)
	}
	m.written = 0
	conn.PgConn().Frontend().Send(&m.messages)
}

// outbox is a message of no bytes: to send it moves what the driver is about to send
// into memory that is kept. The driver drops its own each time.
type outbox []byte

var _ pgproto3.FrontendMessage = (*outbox)(nil)

// Frontend implements pgproto3.FrontendMessage.
func (*outbox) Frontend() {}

// Encode implements pgproto3.Message.
func (o *outbox) Encode(unsent []byte) ([]byte, error) { return append((*o)[:0], unsent...), nil }

// Decode implements pgproto3.Message.
func (*outbox) Decode([]byte) error { return errWriteOnly }
