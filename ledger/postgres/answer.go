package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// answer reads the values of a row one after the other, in the order of the columns.
// The statements of the request path return few kinds of values and many rows; the
// driver's way looks for each value how it is to be read.
type answer struct {
	columns []pgconn.FieldDescription
	values  [][]byte // of the columns that are not read yet
	err     error    // what went wrong first; what is read from then on is zero
}

// answerIn is the row that a result is at. It is there until the next one.
func answerIn(row pgx.CollectableRow) answer {
	return answer{columns: row.FieldDescriptions(), values: row.RawValues()}
}

// eachAnswer reads rows to their end, and closes them.
func eachAnswer(rows pgx.Rows, read func(*answer)) error {
	defer rows.Close()
	var a answer
	for rows.Next() {
		a = answerIn(rows)
		read(&a)
		if err := a.end(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// end returns what went wrong. Values that nobody has read are such.
func (a *answer) end() error {
	if a.err == nil && len(a.values) > 0 {
		return fmt.Errorf("ledger: a row has %d columns, %d too many", len(a.columns), len(a.values))
	}
	return a.err
}

// next returns the next value as Postgres sent it; nil is NULL.
func (a *answer) next() []byte {
	if a.err != nil {
		return nil
	}
	if len(a.values) == 0 {
		a.err = fmt.Errorf("ledger: a row has %d columns, too few", len(a.columns))
		return nil
	}
	value := a.values[0]
	a.values = a.values[1:]
	return value
}

// unreadable says that the value that was read last is not what it should be.
func (a *answer) unreadable(why string) {
	if a.err == nil {
		a.err = fmt.Errorf("ledger: column %s: %s", a.columns[len(a.columns)-len(a.values)-1].Name, why)
	}
}

// null reports whether the next value is NULL, and skips it then.
func (a *answer) null() bool {
	if a.err != nil || len(a.values) == 0 || a.values[0] != nil {
		return false
	}
	a.values = a.values[1:]
	return true
}

// sized returns the next value, which has so many bytes in Postgres's binary format,
// or zeros. The driver asks for that where it knows a type.
func (a *answer) sized(n int) []byte {
	at := len(a.columns) - len(a.values)
	value := a.next()
	if a.err == nil && len(value) == n && a.columns[at].Format == pgtype.BinaryFormatCode {
		return value
	}
	a.unreadable(fmt.Sprintf("want %d bytes in binary, have %d", n, len(value)))
	return make([]byte, n)
}

func (a *answer) flag() bool { return a.sized(1)[0] != 0 }

func (a *answer) int4() int { return int(int32(binary.BigEndian.Uint32(a.sized(4)))) }

func (a *answer) int8() int64 { return int64(binary.BigEndian.Uint64(a.sized(8))) }

func (a *answer) hash() ledger.Hash { return ledger.Hash(a.sized(len(ledger.Hash{}))) }

// text reads a text, which is the same in all formats.
func (a *answer) text() string {
	value := a.next()
	if value == nil {
		a.unreadable("want a text, have NULL")
	}
	return string(value)
}

// textOrNull is nil where there is none.
func (a *answer) textOrNull() []byte { return bytes.Clone(a.next()) }

// uuid reads one that is a uuid or a text.
func (a *answer) uuid() pgtype.UUID {
	value := a.next()
	if len(value) == 16 {
		return pgtype.UUID{Bytes: [16]byte(value), Valid: true}
	}
	id, err := uuid.ParseBytes(value)
	if err != nil {
		a.unreadable("want a UUID")
	}
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}

// y2k is where Postgres counts from, in microseconds.
const y2k = 946_684_800_000_000

// time reads a timestamptz, which has no zone of its own.
func (a *answer) time() time.Time {
	since := a.int8()
	if since == math.MaxInt64 || since == math.MinInt64 { // infinity
		a.unreadable("want a time, have infinity")
	}
	return time.UnixMicro(y2k + since).UTC()
}

// timeOrNull is zero where there is none.
func (a *answer) timeOrNull() time.Time {
	if a.null() {
		return time.Time{}
	}
	return a.time()
}
