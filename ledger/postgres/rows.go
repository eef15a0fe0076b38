package postgres

import (
	"cmp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/ledger"
)

// rowType is a composite type of the schema. A batch's statement takes an array
// of it: to take a column each as an array of its own costs Postgres four times
// as much for a row, and a hundred microseconds for a statement.
type rowType struct {
	name    string
	columns []rowColumn
}

// rowColumn is a column of a row type and how to get it from a write.
type rowColumn struct {
	name, kind string // as the schema has them
	of         func(*write) any
}

// row is a write as a value of a row type.
type row struct {
	of *rowType
	w  *write
}

// IsNull implements pgtype.CompositeIndexGetter.
func (row) IsNull() bool { return false }

// Index implements pgtype.CompositeIndexGetter.
func (r row) Index(i int) any { return r.of.columns[i].of(r.w) }

// rows is the parameter for writes.
func (t *rowType) rows(ws []*write) pgtype.FlatArray[row] {
	rows := make(pgtype.FlatArray[row], len(ws))
	for i, w := range ws {
		rows[i] = row{t, w}
	}
	return rows
}

// register makes the type and its array known to a connection.
func (t *rowType) register(conn *pgx.Conn, oid, arrayOID uint32) {
	m := conn.TypeMap()
	fields := make([]pgtype.CompositeCodecField, len(t.columns))
	for i, c := range t.columns {
		kind, _ := m.TypeForName(c.kind) // those below are built in
		fields[i] = pgtype.CompositeCodecField{Name: c.name, Type: kind}
	}
	element := &pgtype.Type{Name: t.name, OID: oid, Codec: &pgtype.CompositeCodec{Fields: fields}}
	m.RegisterType(element)
	m.RegisterType(&pgtype.Type{Name: "_" + t.name, OID: arrayOID, Codec: &pgtype.ArrayCodec{ElementType: element}})
}

// The row types, as migration 2 makes them.
var (
	openingRow = &rowType{"opening_row", []rowColumn{
		{"tenant_id", "text", func(w *write) any { return w.tenant }},
		{"id", "uuid", func(w *write) any { return uuidOf(w.opening.Operation.ID) }},
		{"idempotency_key", "text", func(w *write) any { return w.key }},
		{"key_hash", "bytea", func(w *write) any { return keyHash(w.key) }},
		{"key_source", "text", func(w *write) any { return w.opening.Operation.KeySource }},
		{"action_type", "text", func(w *write) any { return w.opening.Operation.ActionType }},
		{"adapter_version", "text", func(w *write) any { return w.opening.Operation.AdapterVersion }},
		{"contract_version", "text", func(w *write) any { return w.opening.Operation.ContractVersion }},
		{"args_hash", "bytea", func(w *write) any { return w.opening.Operation.ArgsHash[:] }},
		{"request_hash", "bytea", func(w *write) any { return hashOrNull(w.opening.Operation.RequestHash) }},
		{"arguments_sealed", "bytea", func(w *write) any { return w.opening.Sealed }},
		{"status", "text", func(w *write) any { to, _ := ledger.Next(ledger.New, w.opening.Event); return string(to) }},
		{"event", "text", func(w *write) any { return string(w.opening.Event) }},
		{"claim_id", "uuid", func(w *write) any { return uuidOf(w.opening.Start.ClaimID) }},
		{"provider_key", "text", func(w *write) any { return w.opening.Start.ProviderKey }},
		{"requested_by", "text", func(w *write) any { return w.opening.Operation.RequestedBy }},
		{"run_json", "text", func(w *write) any { return runJSON(w.opening.Operation.Run) }},
		{"run_id", "text", func(w *write) any { return w.opening.Operation.Run.RunID }},
		{"intent_id", "text", func(w *write) any { return w.opening.Operation.IntentID }},
		{"distinct_from", "uuid", func(w *write) any { return uuidOf(w.opening.Operation.DistinctFrom) }},
		{"lease_us", "int8", func(w *write) any { return micros(w.opening.Start.Lease) }},
		{"horizon_us", "int8", func(w *write) any { return micros(w.opening.Start.Horizon) }},
		{"window_us", "int8", func(w *write) any { return micros(w.opening.Window) }},
		{"expired_key", "text", func(w *write) any { return expiredKey(w.opening) }},
	}}

	// reviewRow is the review that a new operation opens.
	reviewRow = &rowType{"review_row", []rowColumn{
		{"operation_id", "uuid", func(w *write) any { return uuidOf(w.opening.Operation.ID) }},
		{"id", "uuid", func(w *write) any { return uuidOf(w.opening.Review.ID) }},
		{"reason", "text", func(w *write) any { return string(w.opening.Review.Reason) }},
		{"detail", "text", func(w *write) any { return ledger.StorableText(w.opening.Review.Detail) }},
		{"expires_us", "int8", func(w *write) any { return micros(w.opening.Review.ExpiresIn) }},
	}}

	changeRow = &rowType{"change_row", []rowColumn{
		{"tenant_id", "text", func(w *write) any { return w.tenant }},
		{"idempotency_key", "text", func(w *write) any { return w.key }},
		{"id", "uuid", func(w *write) any { return uuidOf(w.change.Operation.ID) }},
		{"from_status", "text", func(w *write) any { return string(w.change.Operation.State) }},
		{"attempt", "int4", func(w *write) any { return int32(w.change.Operation.Attempt) }},
		{"epoch", "int4", func(w *write) any { return int32(w.change.Operation.Epoch) }},
		{"lease", "int4", func(w *write) any { return heldLease(w.change) }},
		{"knew_doubt", "bool", func(w *write) any { return w.change.Operation.InDoubt }},
		{"knew_reference", "text", func(w *write) any { return w.change.Operation.ProviderReference }},
		{"event", "text", func(w *write) any { return string(w.change.Event) }},
		{"to_status", "text", func(w *write) any { return string(moveTo(w.change)) }},
		{"effect", "text", func(w *write) any { return string(w.change.Effect) }},
		{"reason", "text", func(w *write) any { return ledger.StorableText(w.change.Reason) }},
		{"in_doubt", "bool", func(w *write) any { return inDoubt(w.change) }},
		{"reference", "text", func(w *write) any { return ledger.StorableText(w.change.ProviderReference) }},
		{"receipt", "text", func(w *write) any { return receiptOf(w.change) }},
		{"failure", "text", func(w *write) any { return failureOf(w.change) }},
		{"bump", "int4", func(w *write) any { return oneIf(w.change.BumpEpoch) }},
		{"reset_resolves", "bool", func(w *write) any { return w.change.ResetResolves }},
		{"delay_us", "int8", func(w *write) any { return micros(w.change.Delay) }},
		{"watch_us", "int8", func(w *write) any { return micros(w.change.Watch) }},
		{"actor", "text", func(w *write) any { return w.change.Actor }},
		{"detail", "text", func(w *write) any { return ledger.StorableText(w.change.Detail) }},
		{"outcome", "text", func(w *write) any { return ledger.StorableText(w.change.AttemptOutcome) }},
		{"review_id", "uuid", func(w *write) any { return uuidOf(asked(w.change).ID) }},
		{"review_reason", "text", func(w *write) any { return string(asked(w.change).Reason) }},
		{"review_detail", "text", func(w *write) any { return ledger.StorableText(asked(w.change).Detail) }},
		{"review_expires_us", "int8", func(w *write) any { return micros(asked(w.change).ExpiresIn) }},
		{"decided_review", "uuid", func(w *write) any { return uuidOf(answered(w.change).ReviewID) }},
		{"decision", "text", func(w *write) any { return nullIfEmpty(string(answered(w.change).Decision)) }},
		{"decided_by", "text", func(w *write) any { return cmp.Or(answered(w.change).By, w.change.Actor) }},
		{"note", "text", func(w *write) any { return ledger.StorableText(answered(w.change).Note) }},
	}}
)

// rowTypes are all of them.
func rowTypes() []*rowType { return []*rowType{openingRow, reviewRow, changeRow} }
