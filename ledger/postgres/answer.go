package postgres

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// answer reads the values of a row one after the other, in the order of the columns.
// The statements that share transactions return few kinds of values and many rows;
// the driver's way looks for each value how it is to be read.
type answer struct {
	columns []pgconn.FieldDescription
	values  [][]byte // of the columns that are not read yet
	err     error    // what went wrong first; what is read from then on is zero
}

// eachAnswer reads rows to their end, and closes them.
func eachAnswer(rows pgx.Rows, read func(*answer)) error {
	defer rows.Close()
	var a answer
	for rows.Next() {
		a = answer{columns: rows.FieldDescriptions(), values: rows.RawValues()}
		read(&a)
		if a.err != nil {
			return a.err
		}
	}
	return rows.Err()
}

// next returns the next value, in the binary format that the driver asks for; texts
// are the same in both. It is nil where it is NULL. Use is until the next row.
func (a *answer) next() []byte {
	at := len(a.columns) - len(a.values)
	switch {
	case a.err != nil:
		return nil
	case len(a.values) == 0:
		a.err = fmt.Errorf("ledger: a row has %d columns, not more", at)
		return nil
	case a.columns[at].Format != pgtype.BinaryFormatCode && a.columns[at].DataTypeOID != pgtype.TextOID:
		a.err = fmt.Errorf("ledger: column %s is not in binary", a.columns[at].Name)
		return nil
	}
	value := a.values[0]
	a.values = a.values[1:]
	return value
}

// sized returns the next value, of so many bytes, or zeros.
func (a *answer) sized(bytes int) []byte {
	value := a.next()
	if len(value) == bytes {
		return value
	}
	a.unreadable(value)
	return make([]byte, bytes)
}

// unreadable says that the value that was read last cannot be what it should.
func (a *answer) unreadable(value []byte) {
	if a.err == nil {
		a.err = fmt.Errorf("ledger: column %s has a value of %d bytes", a.columns[len(a.columns)-len(a.values)-1].Name, len(value))
	}
}

func (a *answer) int4() int { return int(int32(binary.BigEndian.Uint32(a.sized(4)))) }

func (a *answer) int8() int64 { return int64(binary.BigEndian.Uint64(a.sized(8))) }

func (a *answer) text() string {
	value := a.next()
	if value == nil {
		a.unreadable(value)
	}
	return string(value)
}

// uuid reads one that is a uuid or a text.
func (a *answer) uuid() pgtype.UUID {
	value := a.next()
	if len(value) == 16 {
		return pgtype.UUID{Bytes: [16]byte(value), Valid: true}
	}
	id, err := uuid.ParseBytes(value)
	if err != nil {
		a.unreadable(value)
	}
	return pgtype.UUID{Bytes: id, Valid: err == nil}
}

// y2k is where Postgres counts from, in microseconds.
const y2k = 946_684_800_000_000

// time reads a timestamptz, which has no zone of its own.
func (a *answer) time() time.Time {
	value := a.sized(8)
	since := int64(binary.BigEndian.Uint64(value))
	if since == math.MaxInt64 || since == math.MinInt64 { // infinity
		a.unreadable(value)
	}
	return time.UnixMicro(y2k + since).UTC()
}

// timeOrNull is zero where there is none.
func (a *answer) timeOrNull() time.Time {
	if a.err == nil && len(a.values) > 0 && a.values[0] == nil {
		a.next()
		return time.Time{}
	}
	return a.time()
}
