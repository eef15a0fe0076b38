package postgres

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

const anID = "01a228be-69da-7289-8608-0dd65d952cfd"

// answerOf is a row of values as the driver asks Postgres for them.
func answerOf(t *testing.T, values ...any) *answer {
	t.Helper()
	m, a := pgtype.NewMap(), &answer{}
	for _, value := range values {
		column := pgconn.FieldDescription{Name: "c"}
		switch value.(type) {
		case string, nil:
			column.DataTypeOID = pgtype.TextOID
		case pgtype.UUID:
			column.DataTypeOID = pgtype.UUIDOID
		case int32:
			column.DataTypeOID = pgtype.Int4OID
		case bool:
			column.DataTypeOID = pgtype.BoolOID
		case []byte:
			column.DataTypeOID = pgtype.ByteaOID
		case int64:
			column.DataTypeOID = pgtype.Int8OID
		case time.Time, pgtype.Timestamptz:
			column.DataTypeOID = pgtype.TimestamptzOID
		}
		column.Format = m.FormatCodeForOID(column.DataTypeOID)
		if value == nil {
			a.columns, a.values = append(a.columns, column), append(a.values, nil)
			continue
		}
		raw, err := m.Encode(column.DataTypeOID, column.Format, value, []byte{})
		if err != nil {
			t.Fatal(err)
		}
		a.columns, a.values = append(a.columns, column), append(a.values, raw)
	}
	return a
}

func TestAnswerReadsWhatPostgresSends(t *testing.T) {
	t.Parallel()
	times := []time.Time{
		time.Date(2026, 11, 30, 7, 36, 23, 123456000, time.FixedZone("", 3600)), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1999, 12, 31, 23, 59, 59, 999999000, time.UTC), time.Unix(0, 0), time.Date(1900, 1, 1, 0, 0, 0, 1000, time.UTC),
	}
	for _, want := range times {
		a := answerOf(t, want, want, nil)
		if got, again, none := a.time(), a.timeOrNull(), a.timeOrNull(); a.err != nil || !got.Equal(want) || !again.Equal(want) || got.Location() != time.UTC || !none.IsZero() {
			t.Errorf("%s came as %s, %s and %s (%v)", want, got, again, none, a.err)
		}
	}
	id := uuidOf(anID)
	a := answerOf(t, id, anID, int32(-7), int64(math.MinInt64), "text", "")
	if one, two := a.uuid(), a.uuid(); one != id || two != id || !id.Valid {
		t.Errorf("the id came as %v and %v", one, two)
	}
	if n, m := a.int4(), a.int8(); n != -7 || m != math.MinInt64 {
		t.Errorf("numbers came as %d and %d", n, m)
	}
	if one, two := a.text(), a.text(); one != "text" || two != "" || a.end() != nil {
		t.Errorf("texts came as %q and %q (%v)", one, two, a.end())
	}
	hash := ledger.Hash{1, 2, 3}
	a = answerOf(t, true, false, hash[:], hash[:], nil, "text", nil, nil)
	if yes, no := a.flag(), a.flag(); !yes || no {
		t.Errorf("flags came as %v and %v", yes, no)
	}
	if one, two, none := a.hash(), a.hashOrNull(), a.hashOrNull(); one != hash || two == nil || *two != hash || none != nil {
		t.Errorf("hashes came as %x, %x and %x", one, two, none)
	}
	if text, none, null := a.textOrNull(), a.textOrNull(), a.null(); string(text) != "text" || none != nil || !null || a.end() != nil {
		t.Errorf("texts came as %q and %q, the last is NULL: %v (%v)", text, none, null, a.end())
	}
}

// What is not what a statement was to return is an error, and nothing after it is
// read.
func TestAnswerRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	inText := func(a *answer) *answer { a.columns[0].Format = pgtype.TextFormatCode; return a }
	infinite := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	for name, c := range map[string]struct {
		answer *answer
		read   func(*answer)
	}{
		"no value":            {answerOf(t), func(a *answer) { a.text() }},
		"no uuid":             {answerOf(t, "01a228be"), func(a *answer) { a.uuid() }},
		"NULL for a uuid":     {answerOf(t, nil), func(a *answer) { a.uuid() }},
		"NULL for a text":     {answerOf(t, nil), func(a *answer) { a.text() }},
		"NULL for a number":   {answerOf(t, nil), func(a *answer) { a.int4() }},
		"NULL for a time":     {answerOf(t, nil), func(a *answer) { a.time() }},
		"int8 for an int4":    {answerOf(t, int64(1)), func(a *answer) { a.int4() }},
		"int4 for an int8":    {answerOf(t, int32(1)), func(a *answer) { a.int8() }},
		"int4 for a time":     {answerOf(t, int32(1)), func(a *answer) { a.timeOrNull() }},
		"no time":             {answerOf(t), func(a *answer) { a.timeOrNull() }},
		"int8 for a time":     {answerOf(t, int64(1)), func(a *answer) { a.time() }},
		"a time for an int8":  {answerOf(t, time.Now()), func(a *answer) { a.int8() }},
		"a uuid for a text":   {answerOf(t, uuidOf(anID)), func(a *answer) { a.text() }},
		"16 letters":          {answerOf(t, "sixteen letters!"), func(a *answer) { a.uuid() }},
		"bytes for a text":    {answerOf(t, []byte("text")), func(a *answer) { a.textOrNull() }},
		"bytes for JSON":      {answerOf(t, []byte("{}")), func(a *answer) { readJSON[ledger.Run](a) }},
		"infinity":            {answerOf(t, infinite), func(a *answer) { a.time() }},
		"a time written out":  {inText(answerOf(t, time.Now())), func(a *answer) { a.time() }},
		"one too many":        {answerOf(t, "a", "b"), func(a *answer) { a.text() }},
		"no JSON":             {answerOf(t, "{"), func(a *answer) { readJSON[ledger.Run](a) }},
		"a number in letters": {inText(answerOf(t, int32(1))), func(a *answer) { a.int4() }},
	} {
		a := c.answer
		if c.read(a); a.end() == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		first := a.err
		if first == nil {
			continue
		}
		a.columns, a.values = answerOf(t, "after").columns, answerOf(t, "after").values
		if text := a.text(); text != "" || !errors.Is(a.err, first) {
			t.Errorf("%s: read on: %q, %v after %v", name, text, a.err, first)
		}
	}
}

// Rows come in the order of the writes as a rule, and in any other.
func TestByIDFindsInAnyOrder(t *testing.T) {
	t.Parallel()
	ids := []pgtype.UUID{newUUID(), newUUID(), newUUID()}
	ws := []*write{{id: ids[0]}, {id: ids[1]}, {id: ids[2]}}
	for _, order := range [][]int{{0, 1, 2}, {0, 2}, {1}, {2, 1, 0}, {1, 0, 2}, {2, 0}, {1, 1}} {
		about := byID{writes: ws}
		for _, i := range order {
			if got := about.find(ids[i]); got != ws[i] {
				t.Errorf("order %v: found %v for %d", order, got, i)
			}
			if got := about.find(newUUID()); got != nil {
				t.Errorf("order %v: found %v for nobody's id", order, got)
			}
		}
	}
	if got := (&byID{}).find(ids[0]); got != nil {
		t.Errorf("found %v among none", got)
	}
}

// brokenRows are two rows, of which the second cannot be read.
type brokenRows struct {
	pgx.Rows
	answers []*answer
	at      int
	closed  bool
}

func (r *brokenRows) Next() bool                                   { r.at++; return r.at <= len(r.answers) }
func (r *brokenRows) FieldDescriptions() []pgconn.FieldDescription { return r.answers[r.at-1].columns }
func (r *brokenRows) RawValues() [][]byte                          { return r.answers[r.at-1].values }
func (r *brokenRows) Close()                                       { r.closed = true }
func (r *brokenRows) Err() error                                   { return nil }

func TestAnswersEndWithWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	rows := &brokenRows{answers: []*answer{answerOf(t, int32(1)), answerOf(t, nil), answerOf(t, int32(3))}}
	var read []int
	err := eachAnswer(rows, func(a *answer) { read = append(read, a.int4()) })
	if err == nil || !rows.closed || len(read) != 2 || read[0] != 1 || read[1] != 0 {
		t.Errorf("read %v, closed %v, %v", read, rows.closed, err)
	}
}
