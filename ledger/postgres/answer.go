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

// is reports whether the next value is of a type, in a format.
func (a *answer) is(oid uint32, format int16) bool {
	at := len(a.columns) - len(a.values)
	return at < len(a.columns) && a.columns[at].DataTypeOID == oid && a.columns[at].Format == format
}

// sized returns the next value, which is of a type that has so many bytes in
// Postgres's binary format, or zeros. The driver asks for that where it knows a type.
func (a *answer) sized(n int, oid uint32) []byte {
	right := a.is(oid, pgtype.BinaryFormatCode)
	value := a.next()
	if a.err == nil && right && len(value) == n {
		return value
	}
	a.unreadable(fmt.Sprintf("want %d bytes of type %d in binary, have %d", n, oid, len(value)))
	return make([]byte, n)
}

func (a *answer) flag() bool { return a.sized(1, pgtype.BoolOID)[0] != 0 }

func (a *answer) int4() int { return int(int32(binary.BigEndian.Uint32(a.sized(4, pgtype.Int4OID)))) }

func (a *answer) int8() int64 { return int64(binary.BigEndian.Uint64(a.sized(8, pgtype.Int8OID))) }

func (a *answer) hash() ledger.Hash {
	return ledger.Hash(a.sized(len(ledger.Hash{}), pgtype.ByteaOID))
}

// text reads a text.
func (a *answer) text() string {
	value := a.raw()
	if value == nil {
		a.unreadable("want a text, have NULL")
	}
	return string(value)
}

// textOrNull is nil where there is none.
func (a *answer) textOrNull() []byte { return bytes.Clone(a.raw()) }

// raw is the next value, a text: it is there until the next row.
func (a *answer) raw() []byte {
	right := a.is(pgtype.TextOID, pgtype.TextFormatCode)
	value := a.next()
	if !right {
		a.unreadable("want a text")
	}
	return value
}

// uuid reads one that is a uuid or a text.
func (a *answer) uuid() pgtype.UUID {
	if a.is(pgtype.UUIDOID, pgtype.BinaryFormatCode) {
		return pgtype.UUID{Bytes: [16]byte(a.sized(16, pgtype.UUIDOID)), Valid: a.err == nil}
	}
	id, err := uuid.ParseBytes(a.raw())
	if err != nil {
		a.unreadable("want a UUID")
	}
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}

// y2k is where Postgres counts from, in microseconds.
const y2k = 946_684_800_000_000

// time reads a timestamptz, which has no zone of its own.
func (a *answer) time() time.Time {
	since := int64(binary.BigEndian.Uint64(a.sized(8, pgtype.TimestamptzOID)))
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
