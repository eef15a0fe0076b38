package postgres

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// rowType is a composite type of the schema. A batch's statement takes an array
// of it: to take each column as an array of its own costs Postgres four times
// as much for a row, and a hundred microseconds for a statement.
//
// It writes its values itself, in Postgres's binary format: the driver's way to
// composite values looks up how to write each field of each row, which took
// longer than all the rest of a small transaction on this side.
type rowType struct {
	name    string
	columns []rowColumn
}

// rowColumn is a column of a row type: its name and type as the schema has
// them, and how the value that a write has for it is added to a message.
type rowColumn struct {
	name, kind string
	add        func([]byte, *write) []byte
}

// rows is the parameter for writes.
type rows []*write

// register makes arrays of the type known to a connection, which has some memory.
func (t *rowType) register(conn *pgx.Conn, m *memory, oid, arrayOID uint32) {
	codec := rowsCodec{columns: t.columns, oid: oid, memory: m}
	for _, c := range t.columns {
		kind, _ := conn.TypeMap().TypeForName(c.kind) // all of them are built in
		codec.kinds = append(codec.kinds, kind.OID)
	}
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "_" + t.name, OID: arrayOID, Codec: codec})
}

// rowsCodec writes rows as an array of a row type.
type rowsCodec struct {
	columns []rowColumn
	kinds   []uint32 // of the columns
	oid     uint32   // of the row type
	memory  *memory  // of the connection
}

var _ pgtype.Codec = rowsCodec{}

// FormatSupported implements pgtype.Codec.
func (rowsCodec) FormatSupported(format int16) bool { return format == pgtype.BinaryFormatCode }

// PreferredFormat implements pgtype.Codec.
func (rowsCodec) PreferredFormat() int16 { return pgtype.BinaryFormatCode }

// PlanEncode implements pgtype.Codec.
func (c rowsCodec) PlanEncode(_ *pgtype.Map, _ uint32, _ int16, value any) pgtype.EncodePlan {
	if _, ok := value.(rows); !ok {
		return nil
	}
	return c
}

// Encode implements pgtype.EncodePlan: what array_recv and record_recv of
// Postgres read.
func (c rowsCodec) Encode(value any, b []byte) ([]byte, error) {
	ws, ok := value.(rows)
	if !ok {
		return nil, errWriteOnly
	}
	dimensions := int32(1)
	if len(ws) == 0 {
		dimensions = 0
	}
	b = c.memory.larger(b)
	before := len(b)
	b = appendInt32(appendInt32(b, dimensions), 0) // no element is NULL
	b = binary.BigEndian.AppendUint32(b, c.oid)
	if len(ws) == 0 {
		return b, nil
	}
	b = appendInt32(appendInt32(b, int32(len(ws))), 1) // numbered from 1
	for _, w := range ws {
		start := len(b)
		b = appendInt32(appendInt32(b, 0), int32(len(c.columns)))
		for i, column := range c.columns {
			b = column.add(binary.BigEndian.AppendUint32(b, c.kinds[i]), w)
		}
		binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	}
	c.memory.keep(b, len(b)-before)
	return b, nil
}

// errWriteOnly: rows are parameters; no statement returns them.
var errWriteOnly = errors.New("ledger: rows are parameters only")

// PlanScan implements pgtype.Codec.
func (rowsCodec) PlanScan(*pgtype.Map, uint32, int16, any) pgtype.ScanPlan { return nil }

// DecodeDatabaseSQLValue implements pgtype.Codec.
func (rowsCodec) DecodeDatabaseSQLValue(*pgtype.Map, uint32, int16, []byte) (driver.Value, error) {
	return nil, errWriteOnly
}

// DecodeValue implements pgtype.Codec.
func (rowsCodec) DecodeValue(*pgtype.Map, uint32, int16, []byte) (any, error) {
	return nil, errWriteOnly
}

func textColumn(name string, of func(*write) string) rowColumn {
	return rowColumn{name, "text", func(b []byte, w *write) []byte {
		text := of(w)
		return append(appendInt32(b, int32(len(text))), text...)
	}}
}

// nullColumn is a text or bytes; it is NULL where there are none.
func nullColumn(name, kind string, of func(*write) []byte) rowColumn {
	return rowColumn{name, kind, func(b []byte, w *write) []byte {
		value := of(w)
		if value == nil {
			return appendInt32(b, null)
		}
		return append(appendInt32(b, int32(len(value))), value...)
	}}
}

// madeColumn is a text or bytes that are made where they are sent from.
func madeColumn(name, kind string, add func([]byte, *write) []byte) rowColumn {
	return rowColumn{name, kind, func(b []byte, w *write) []byte {
		start := len(b)
		b = add(appendInt32(b, 0), w)
		binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
		return b
	}}
}

// uuidColumn is NULL where a text is no UUID: the database refuses it where one
// is needed.
func uuidColumn(name string, of func(*write) string) rowColumn {
	return rowColumn{name, "uuid", func(b []byte, w *write) []byte {
		id, err := uuid.Parse(of(w))
		return appendUUID(b, pgtype.UUID{Bytes: id, Valid: err == nil})
	}}
}

// idColumn is the id of the write's operation.
func idColumn(name string) rowColumn {
	return rowColumn{name, "uuid", func(b []byte, w *write) []byte { return appendUUID(b, w.id) }}
}

func appendUUID(b []byte, id pgtype.UUID) []byte {
	if !id.Valid {
		return appendInt32(b, null)
	}
	return append(appendInt32(b, int32(len(id.Bytes))), id.Bytes[:]...)
}

func int8Column(name string, of func(*write) int64) rowColumn {
	return rowColumn{name, "int8", func(b []byte, w *write) []byte {
		return binary.BigEndian.AppendUint64(appendInt32(b, 8), uint64(of(w)))
	}}
}

func int4Column(name string, of func(*write) int32) rowColumn {
	return rowColumn{name, "int4", func(b []byte, w *write) []byte {
		return appendInt32(appendInt32(b, 4), of(w))
	}}
}

func boolColumn(name string, of func(*write) bool) rowColumn {
	return rowColumn{name, "bool", func(b []byte, w *write) []byte {
		b = appendInt32(b, 1)
		if of(w) {
			return append(b, 1)
		}
		return append(b, 0)
	}}
}

// null is the length of a value that is NULL.
const null = -1

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// The row types, as migration 2 makes them and later ones add to them. What
// operations hold is in holdrows.go.
var (
	openingRow = &rowType{"opening_row", []rowColumn{
		textColumn("tenant_id", func(w *write) string { return w.tenant }),
		idColumn("id"),
		textColumn("idempotency_key", func(w *write) string { return w.key }),
		madeColumn("key_hash", "bytea", addKeyHash),
		textColumn("key_source", func(w *write) string { return w.opening.Operation.KeySource }),
		textColumn("action_type", func(w *write) string { return w.opening.Operation.ActionType }),
		textColumn("adapter_version", func(w *write) string { return w.opening.Operation.AdapterVersion }),
		textColumn("contract_version", func(w *write) string { return w.opening.Operation.ContractVersion }),
		nullColumn("args_hash", "bytea", func(w *write) []byte { return w.opening.Operation.ArgsHash[:] }),
		nullColumn("request_hash", "bytea", func(w *write) []byte { return hashOrNull(w.opening.Operation.RequestHash) }),
		nullColumn("arguments_sealed", "bytea", func(w *write) []byte { return w.opening.Sealed }),
		textColumn("status", func(w *write) string { to, _ := ledger.Next(ledger.New, w.opening.Event); return string(to) }),
		textColumn("event", func(w *write) string { return string(w.opening.Event) }),
		uuidColumn("claim_id", func(w *write) string { return w.opening.Start.ClaimID }),
		textColumn("provider_key", func(w *write) string { return w.opening.Start.ProviderKey }),
		textColumn("requested_by", func(w *write) string { return w.opening.Operation.RequestedBy }),
		madeColumn("run_json", "text", func(b []byte, w *write) []byte { return w.opening.Operation.Run.AppendJSON(b) }),
		textColumn("run_id", func(w *write) string { return w.opening.Operation.Run.RunID }),
		textColumn("intent_id", func(w *write) string { return w.opening.Operation.IntentID }),
		uuidColumn("distinct_from", func(w *write) string { return w.opening.Operation.DistinctFrom }),
		int8Column("lease_us", func(w *write) int64 { return micros(w.opening.Start.Lease) }),
		int8Column("horizon_us", func(w *write) int64 { return micros(w.opening.Start.Horizon) }),
		int8Column("window_us", func(w *write) int64 { return micros(w.opening.Window) }),
		textColumn("expired_key", func(w *write) string { return expiredKey(w.opening) }),
		boolColumn("held", func(w *write) bool { return !w.opening.Holds.Empty() }),
		int4Column("max_attempts", func(w *write) int32 { return int32(w.opening.Operation.MaxAttempts) }),
		int8Column("give_up_us", func(w *write) int64 { return micros(w.opening.GiveUp) }),
		textColumn("provider", func(w *write) string { return w.opening.Provider }),
		textColumn("amount", func(w *write) string { return w.opening.Operation.Amount }),
		textColumn("currency", func(w *write) string { return w.opening.Operation.Currency }),
		textColumn("stage", func(w *write) string { return string(w.opening.Operation.Stage) }),
		textColumn("policy_version", func(w *write) string { return w.opening.Operation.PolicyVersion }),
		textColumn("rule", func(w *write) string { return w.opening.Operation.Rule }),
		madeColumn("context", "text", addContext),
	}}

	// reviewRow is the review that a new operation opens.
	reviewRow = &rowType{"review_row", []rowColumn{
		idColumn("operation_id"),
		uuidColumn("id", func(w *write) string { return w.opening.Review.ID }),
		textColumn("reason", func(w *write) string { return string(w.opening.Review.Reason) }),
		textColumn("detail", func(w *write) string { return ledger.StorableText(w.opening.Review.Detail) }),
		int8Column("expires_us", func(w *write) int64 { return micros(w.opening.Review.ExpiresIn) }),
		int4Column("required_approvals", func(w *write) int32 { return requiredApprovals(*w.opening.Review) }),
		textColumn("policy_version", func(w *write) string { return w.opening.Review.PolicyVersion }),
	}}

	changeRow = &rowType{"change_row", []rowColumn{
		textColumn("tenant_id", func(w *write) string { return w.tenant }),
		textColumn("idempotency_key", func(w *write) string { return w.key }),
		idColumn("id"),
		textColumn("from_status", func(w *write) string { return string(w.change.Operation.State) }),
		int4Column("attempt", func(w *write) int32 { return int32(w.change.Operation.Attempt) }),
		int4Column("epoch", func(w *write) int32 { return int32(w.change.Operation.Epoch) }),
		int4Column("lease", func(w *write) int32 { return heldLease(w.change) }),
		boolColumn("knew_doubt", func(w *write) bool { return w.change.Operation.InDoubt }),
		textColumn("knew_reference", func(w *write) string { return w.change.Operation.ProviderReference }),
		textColumn("event", func(w *write) string { return string(w.change.Event) }),
		textColumn("to_status", func(w *write) string { return string(moveTo(w.change)) }),
		textColumn("effect", func(w *write) string { return string(w.change.Effect) }),
		textColumn("reason", func(w *write) string { return w.change.Reason }),
		boolColumn("in_doubt", func(w *write) bool { return inDoubt(w.change) }),
		textColumn("reference", func(w *write) string { return w.change.ProviderReference }),
		nullColumn("receipt", "text", func(w *write) []byte { return w.change.Receipt }),
		nullColumn("failure", "text", func(w *write) []byte { return failureJSON(w.change.Failure) }),
		int4Column("bump", func(w *write) int32 { return oneIf(w.change.BumpEpoch) }),
		boolColumn("reset_resolves", func(w *write) bool { return w.change.ResetResolves }),
		int8Column("delay_us", func(w *write) int64 { return micros(w.change.Delay) }),
		int8Column("watch_us", func(w *write) int64 { return micros(w.change.Watch) }),
		textColumn("actor", func(w *write) string { return w.change.Actor }),
		textColumn("detail", func(w *write) string { return w.change.Detail }),
		textColumn("outcome", func(w *write) string { return w.change.AttemptOutcome }),
		uuidColumn("review_id", func(w *write) string { return asked(w.change).ID }),
		textColumn("review_reason", func(w *write) string { return string(asked(w.change).Reason) }),
		textColumn("review_detail", func(w *write) string { return ledger.StorableText(asked(w.change).Detail) }),
		int8Column("review_expires_us", func(w *write) int64 { return micros(asked(w.change).ExpiresIn) }),
		uuidColumn("decided_review", func(w *write) string { return answered(w.change).ReviewID }),
		nullColumn("decision", "text", func(w *write) []byte { return decisionOf(w.change) }),
		textColumn("decided_by", func(w *write) string { return cmp.Or(answered(w.change).By, w.change.Actor) }),
		textColumn("note", func(w *write) string { return ledger.StorableText(answered(w.change).Note) }),
		int8Column("knew_revision", func(w *write) int64 { return w.change.Operation.Revision }),
		int4Column("required_approvals", func(w *write) int32 { return requiredApprovals(asked(w.change)) }),
		textColumn("policy_version", func(w *write) string { return asked(w.change).PolicyVersion }),
	}}
)

// addKeyHash adds what names the key in the tombstones.
func addKeyHash(b []byte, w *write) []byte {
	hash := ledger.KeyHash(w.key)
	return append(b, hash[:]...)
}

// addContext adds what the first event of an operation says of its request.
func addContext(b []byte, w *write) []byte {
	c := openingContext(w.opening)
	return c.AppendJSON(b, w.key)
}

// rowTypes are all of them.
func rowTypes() []*rowType { return []*rowType{openingRow, reviewRow, changeRow, heldRow} }
