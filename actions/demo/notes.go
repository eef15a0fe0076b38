package demo

import (
	"encoding/json"

	_ "embed"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/sqlaction"
)

//go:embed notes.sql
var notesTable string

// NotesTable returns the statements that create the table of notes.insert in
// the ledger's own database and let the serving role add to it. The owner of
// the schema runs them; they can be run again.
func NotesTable() string { return notesTable }

const noteSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["subject", "body"],
  "properties": {
    "subject": {"type": "string", "minLength": 1, "maxLength": 200, "description": "What the note is about, such as inv_501."},
    "body": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "The note."}
  }
}`

const insertNote = `
INSERT INTO demo_notes (tenant_id, operation_id, subject, body)
VALUES ($1, $2::text::uuid, $3, $4)
RETURNING operation_id::text, json_build_object('note', operation_id, 'subject', subject)`

// newNotes makes notes.insert: a row in the ledger's own database, written in
// the transaction that settles the operation.
func newNotes(o Options) *sqlaction.Local {
	return sqlaction.NewLocal(actions.Spec{
		Type:        "notes.insert",
		Version:     "1",
		Description: "Keep a note.",
		Owner:       "support",
		Risk:        actions.RiskLow,
		Schema:      json.RawMessage(noteSchema),
		Contract:    actions.Contract{Provider: "ledger", Version: "1"},
		Timeout:     o.Timeout,
	}, nil, func(call actions.Call) (actions.Statement, error) {
		var note struct {
			Subject string `json:"subject"`
			Body    string `json:"body"`
		}
		if err := call.Arguments.Decode(&note); err != nil {
			return actions.Statement{}, err
		}
		return actions.Statement{SQL: insertNote, Args: []any{call.Tenant, call.OperationID, note.Subject, note.Body}}, nil
	})
}
