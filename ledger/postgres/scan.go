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
	return scanWith(row)
}

// scanHolding reads a row of holders.sql.
func scanHolding(row pgx.CollectableRow) (holding, error) {
	var h holding
	var err error
	h.op, err = scanWith(row, &h.expired)
	return h, err
}

// scanWith reads other columns and those of operation_columns.sql after them.
func scanWith(row pgx.CollectableRow, before ...any) (ledger.Operation, error) {
	var (
		op                           ledger.Operation
		argsHash, requestHash        []byte
		receipt, failure, run        *string
		firstSent, lastSent, doubted *time.Time
		horizon, lease, nextTry      *time.Time
		settled, windowEnds          *time.Time
		watchUntil                   *time.Time
		maxAttempts                  *int
		giveUp                       *time.Time
	)
	err := row.Scan(append(before,
		&op.Tenant, &op.ID, &op.Key, &op.KeySource, &op.ActionType, &op.AdapterVersion, &op.ContractVersion,
		&argsHash, &requestHash, &op.State, &op.LastEvent, &op.Effect, &op.Reason, &op.InDoubt,
		&op.Attempt, &op.Epoch, &op.Lease, &op.Resolves, &op.NegativeReads,
		&op.ProviderReference, &receipt, &failure, &op.Incident,
		&op.RequestedBy, &run, &op.IntentID, &op.DistinctFrom,
		&op.CreatedAt, &op.UpdatedAt, &firstSent, &lastSent, &doubted, &horizon, &lease,
		&nextTry, &settled, &windowEnds, &watchUntil, &op.Revision, &op.Held, &maxAttempts, &giveUp,
		&op.Amount, &op.Currency, &op.Stage, &op.PolicyVersion, &op.Rule)...,
	)
	if err != nil {
		return ledger.Operation{}, err
	}
	op.ArgsHash = ledger.Hash(argsHash)
	if requestHash != nil {
		hash := ledger.Hash(requestHash)
		op.RequestHash = &hash
	}
	if receipt != nil {
		op.Receipt = []byte(*receipt)
	}
	if failure != nil {
		op.Failure = &ledger.Failure{}
		if err := json.Unmarshal([]byte(*failure), op.Failure); err != nil {
			return ledger.Operation{}, fmt.Errorf("error_json of operation %s: %w", op.ID, err)
		}
	}
	if run != nil {
		if err := json.Unmarshal([]byte(*run), &op.Run); err != nil {
			return ledger.Operation{}, fmt.Errorf("run_json of operation %s: %w", op.ID, err)
		}
	}
	if maxAttempts != nil {
		op.MaxAttempts = *maxAttempts
	}
	op.GiveUpAt = orZero(giveUp)
	op.CreatedAt, op.UpdatedAt = op.CreatedAt.UTC(), op.UpdatedAt.UTC()
	op.FirstSentAt, op.LastSentAt, op.DoubtedAt = orZero(firstSent), orZero(lastSent), orZero(doubted)
	op.KeyHorizon = orZero(horizon)
	op.LeaseExpiresAt, op.NextAttemptAt = orZero(lease), orZero(nextTry)
	op.SettledAt, op.WindowEndsAt, op.WatchUntil = orZero(settled), orZero(windowEnds), orZero(watchUntil)
	return op, nil
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
