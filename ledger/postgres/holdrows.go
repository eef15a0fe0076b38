package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// heldRow is an operation of a transaction that takes holds or gives them back.
// What is moved has its charges and fences in the ledger.
var heldRow = &rowType{"held_row", []rowColumn{
	textColumn("tenant_id", func(w *write) string { return w.tenant }),
	idColumn("id"),
	textColumn("idempotency_key", func(w *write) string { return w.key }),
	textColumn("how", howHeld),
	uuidColumn("distinct_from", func(w *write) string {
		if w.opening == nil {
			return ""
		}
		return w.opening.Operation.DistinctFrom
	}),
	chargesColumn("counters", func(c ledger.Charge) string { return c.Counter }),
	chargesColumn("kinds", func(c ledger.Charge) string { return string(c.Kind) }),
	chargesColumn("amounts", func(c ledger.Charge) string { return c.Amount }),
	chargesColumn("mosts", func(c ledger.Charge) string { return c.Limit }),
	chargesColumn("units", func(c ledger.Charge) string { return c.Window.Unit }),
	chargesColumn("zones", func(c ledger.Charge) string { return zoneOf(c.Window) }),
	arrayColumn("slidings_us", "_int8", pgtype.Int8OID, func(w *write) []ledger.Charge { return holdsOf(w).Charges },
		func(b []byte, c ledger.Charge) []byte { return appendInt8(b, micros(c.Window.Sliding)) }),
	arrayColumn("intents", "_text", pgtype.TextOID, func(w *write) []ledger.Fence { return holdsOf(w).Fences },
		func(b []byte, f ledger.Fence) []byte { return appendText(b, f.Intent) }),
	arrayColumn("quiets_us", "_int8", pgtype.Int8OID, func(w *write) []ledger.Fence { return holdsOf(w).Fences },
		func(b []byte, f ledger.Fence) []byte { return appendInt8(b, micros(f.Quiet)) }),
	madeColumn("context", "text", func(b []byte, w *write) []byte {
		if w.opening == nil {
			return b
		}
		return addContext(b, w)
	}),
}}

func howHeld(w *write) string {
	switch {
	case w.change != nil:
		return "move"
	case w.corrects:
		return "correct"
	}
	return "open"
}

func holdsOf(w *write) ledger.Holds {
	if w.opening == nil {
		return ledger.Holds{}
	}
	return w.opening.Holds
}

func zoneOf(w ledger.Window) string {
	if w.Zone == "" {
		return "UTC"
	}
	return w.Zone
}

func chargesColumn(name string, of func(ledger.Charge) string) rowColumn {
	return arrayColumn(name, "_text", pgtype.TextOID, func(w *write) []ledger.Charge { return holdsOf(w).Charges },
		func(b []byte, c ledger.Charge) []byte { return appendText(b, of(c)) })
}

// arrayColumn is an array, as array_recv of Postgres reads it. element is the
// type of what is in it.
func arrayColumn[T any](name, kind string, element uint32, of func(*write) []T, add func([]byte, T) []byte) rowColumn {
	return rowColumn{name, kind, func(b []byte, w *write) []byte {
		start, elements := len(b), of(w)
		dimensions := int32(1)
		if len(elements) == 0 {
			dimensions = 0
		}
		b = appendInt32(appendInt32(appendInt32(b, 0), dimensions), 0) // no element is NULL
		b = binary.BigEndian.AppendUint32(b, element)
		if len(elements) > 0 {
			b = appendInt32(appendInt32(b, int32(len(elements))), 1) // numbered from 1
		}
		for _, value := range elements {
			b = add(b, value)
		}
		binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
		return b
	}}
}

func appendText(b []byte, text string) []byte {
	return append(appendInt32(b, int32(len(text))), text...)
}

func appendInt8(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(appendInt32(b, 8), uint64(v))
}
