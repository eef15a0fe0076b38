package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// What it costs to write the parameter of a batch.
func BenchmarkRows(b *testing.B) {
	m := pgtype.NewMap()
	codec := rowsCodec{columns: openingRow.columns, oid: 1, memory: &memory{}}
	for _, c := range openingRow.columns {
		kind, ok := m.TypeForName(c.kind)
		if !ok {
			b.Fatalf("no type %s", c.kind)
		}
		codec.kinds = append(codec.kinds, kind.OID)
	}
	const id = "01a228be-69da-7289-8608-0dd65d952cfd"
	ws := make(rows, 64)
	for i := range ws {
		ws[i] = opens(&ledger.Opening{
			Operation: ledger.Operation{Tenant: "acme", Key: "key-" + id, ID: id, ActionType: "demo.refund.create", RequestHash: &ledger.Hash{}, Run: ledger.Run{RunID: "run-1", StepID: "step-1", Attempt: 1}},
			Event:     ledger.Claim, Sealed: make([]byte, 200), Window: time.Hour,
			Start: ledger.Start{ClaimID: id, Lease: time.Minute, ProviderKey: "0123456789abcdefghijklmnop"},
		})
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = codec.Encode(ws, buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ws)), "ns/row")
}
