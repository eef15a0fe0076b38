package postgres

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Parameters are the same whatever memory they are written into, and what was written
// before them in a statement stays.
func TestRowsAreWrittenIntoWhatIsKept(t *testing.T) {
	t.Parallel()
	columns := []rowColumn{textColumn("key", func(w *write) string { return w.key })}
	written := func(m *memory, b []byte, keys ...string) []byte {
		t.Helper()
		var ws rows
		for _, key := range keys {
			ws = append(ws, &write{key: key})
		}
		b, err := rowsCodec{columns: columns, kinds: []uint32{1}, memory: m}.Encode(ws, b)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	long, longer := string(make([]byte, 5000)), string(make([]byte, 2*maxKept))
	kept := &memory{}
	for _, keys := range [][]string{{"a"}, {long, "b"}, {"c"}, {}, {longer}, {"d", long}} {
		// As the driver does: a small slice for each statement, and two parameters.
		got := written(kept, written(kept, append(make([]byte, 0, 32), "before"...), keys...), "second")
		want := written(&memory{}, written(&memory{}, []byte("before"), keys...), "second")
		if !bytes.Equal(got, want) {
			t.Errorf("%.20q: got %d bytes, want %d: %.60q, %.60q", keys, len(got), len(want), got, want)
		}
	}
	if got := cap(kept.parameters); got < 5000 || got > maxKept {
		t.Errorf("%d bytes are kept, want those of all but the longest", got)
	}
}

// What is sent does not depend on where it was written.
func TestOutboxIsNoMessage(t *testing.T) {
	t.Parallel()
	var got, want bytes.Buffer
	plain, kept := pgproto3.NewFrontend(nil, &want), pgproto3.NewFrontend(nil, &got)
	room := make(outbox, 0, 4000)
	for _, size := range []int{1, 3000, 10, 9000, 100} {
		bind := &pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{bytes.Repeat([]byte{byte(size)}, size)}}
		plain.SendBind(bind)
		plain.SendSync(&pgproto3.Sync{})
		// With something unsent, and twice.
		kept.Send(&room)
		kept.SendBind(bind)
		kept.Send(&room)
		kept.SendSync(&pgproto3.Sync{})
		if err := plain.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := kept.Flush(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("of %d bytes: sent %d bytes, want %d", size, got.Len(), want.Len())
		}
	}
}
