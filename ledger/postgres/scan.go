package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// scanOperation reads a row of operation_columns.sql.
func scanOperation(row pgx.CollectableRow) (ledger.Operation, error) {
	a := answerIn(row)
	op := a.operation()
	return op, a.end()
}

// operation reads the columns of operation_columns.sql, in their order.
func (a *answer) operation() ledger.Operation {
	op := ledger.Operation{
		Tenant: a.text(), ID: a.text(), Key: a.text(), KeySource: a.text(),
		ActionType: a.text(), AdapterVersion: a.text(), ContractVersion: a.text(),
		ArgsHash: a.hash(), RequestHash: a.hashOrNull(),
		State: ledger.State(a.text()), LastEvent: ledger.Event(a.text()), Effect: ledger.Effect(a.text()), Reason: a.text(), InDoubt: a.flag(),
		Attempt: a.int4(), Epoch: a.int4(), Lease: a.int4(), Resolves: a.int4(), NegativeReads: a.int4(),
		ProviderReference: a.text(), Receipt: a.textOrNull(), Failure: readJSON[ledger.Failure](a), Incident: a.text(),
		RequestedBy: a.text(),
	}
	if run := readJSON[ledger.Run](a); run != nil {
		op.Run = *run
	}
	op.IntentID, op.DistinctFrom = a.text(), a.text()
	op.CreatedAt, op.UpdatedAt = a.time(), a.time()
	op.FirstSentAt, op.LastSentAt, op.DoubtedAt = a.timeOrNull(), a.timeOrNull(), a.timeOrNull()
	op.KeyHorizon, op.LeaseExpiresAt, op.NextAttemptAt = a.timeOrNull(), a.timeOrNull(), a.timeOrNull()
	op.SettledAt, op.WindowEndsAt, op.WatchUntil = a.timeOrNull(), a.timeOrNull(), a.timeOrNull()
	op.Revision, op.Held = a.int8(), a.flag()
	if !a.null() {
		op.MaxAttempts = a.int4()
	}
	op.GiveUpAt = a.timeOrNull()
	op.Amount, op.Currency, op.Stage, op.PolicyVersion, op.Rule = a.text(), a.text(), ledger.Stage(a.text()), a.text(), a.text()
	if a.err != nil {
		a.err = fmt.Errorf("operation %s: %w", op.ID, a.err)
	}
	return op
}

// hashOrNull is nil where there is none.
func (a *answer) hashOrNull() *ledger.Hash {
	if a.null() {
		return nil
	}
	hash := a.hash()
	return &hash
}

// readJSON reads a value as it is stored, or nil where there is none.
func readJSON[T any](a *answer) *T {
	if a.null() {
		return nil
	}
	value := new(T)
	if err := json.Unmarshal(a.raw(), value); err != nil {
		a.unreadable(err.Error())
	}
	return value
}

func scanAttempt(row pgx.CollectableRow) (ledger.Attempt, error) {
	var a ledger.Attempt
	var ended *time.Time
	err := row.Scan(&a.Number, &a.StartedAt, &ended, &a.Outcome, &a.Evidence)
	a.StartedAt, a.EndedAt = a.StartedAt.UTC(), orZero(ended)
	return a, err
}

// reviewFields returns where the columns of a review go, and a function to
// call after the scan.
func reviewFields(r *ledger.Review) (fields []any, done func()) {
	var expires, decided *time.Time
	fields = []any{&r.ID, &r.Reason, &r.Detail, &r.OpenedAt, &expires, &r.Decision, &r.DecidedBy, &r.Note, &decided,
		&r.RequiredApprovals, &r.PolicyVersion, &r.Approvals}
	return fields, func() {
		r.OpenedAt, r.ExpiresAt, r.DecidedAt = r.OpenedAt.UTC(), orZero(expires), orZero(decided)
		for i := range r.Approvals {
			r.Approvals[i].At = r.Approvals[i].At.UTC()
		}
	}
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
