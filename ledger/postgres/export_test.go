package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// RequestPath returns the statements that a request waits for, by name.
func RequestPath() map[string]string {
	return map[string]string{
		"tombstone": tombstoneSQL, "retire": retireSQL, "claim found": claimFoundSQL,
		"get": getSQL, "attempts": attemptsSQL, "latest review": latestReviewSQL, "arguments": argumentsSQL,
		"review": reviewSQL, "poll": pollSQL, "list": listSQL,
		"matching switch": matchingSwitchSQL, "lock review": lockReviewSQL,
	}
}

// Background returns the reconciler's statements, by name.
func Background() map[string]string {
	return map[string]string{
		"expire leases": expireLeasesSQL, "due pending": duePendingSQL, "lease unknown": leaseUnknownSQL,
		"expired reviews": expiredReviewsSQL, "lease watched": leaseWatchedSQL, "bury": burySQL, "sweep": sweepSQL, "approved reviews": approvedReviewsSQL,
	}
}

// Batches returns the statements of shared transactions, by name, with the number
// of their parameters.
func Batches() map[string]Batch {
	batches := map[string]Batch{}
	for name, s := range map[string]statement{
		"open": openSQL, "open asking": openAskingSQL, "change": changeSQL, "change with reviews": changeReviewsSQL,
		"start": prepare(startSQL), "correct": prepare(correctSQL), "hold": holdSQL, "evidence": prepare(evidenceSQL), "postpone": prepare(postponeSQL),
	} {
		batches[name] = Batch{SQL: s.sql, Parameters: len(s.names)}
	}
	return batches
}

// Batch is a statement of batches.
type Batch struct {
	SQL        string
	Parameters int
}

// BatchSettings are those of the connections that batches are sent on.
func BatchSettings() map[string]string { return batchSettings }

// Events is the statement that reads the audit record.
func Events() string { return eventsSQL }

// Denied is the statement that reads refusals in it.
func Denied() string { return deniedSQL }

// Holders is the statement that answers who holds a key.
func Holders() Batch { return Batch{SQL: holdersSQL.sql, Parameters: len(holdersSQL.names)} }

// WriteCrowd is how many writes wait before there is a second transaction.
const WriteCrowd = writeCrowd

// MaxWaiting is how many new operations may wait for a transaction.
const MaxWaiting = maxWaiting

// Waiting is how many writes wait for a transaction.
func (s *Store) Waiting() int {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	return len(s.writes.waiting)
}

// RowTypes returns the columns of the row types, by name, as the program has
// them.
func RowTypes() map[string][]string {
	types := map[string][]string{}
	for _, t := range rowTypes() {
		for _, c := range t.columns {
			types[t.name] = append(types[t.name], c.name+" "+c.kind)
		}
	}
	return types
}

// Statistics returns the statements about tallies and observations, by name.
func Statistics() map[string]string {
	return map[string]string{
		"tallies": talliesSQL, "observations": observationsSQL, "observed tenants": observedTenantsSQL,
		"sweep tallies": sweepTalliesSQL, "sweep batches": sweepTallyBatchesSQL,
		"sweep observations": sweepObservationsSQL, "sweep keys": sweepObservedKeysSQL,
	}
}

// HoldStatements is how many statements about holds a transaction of an opening
// and a change has.
func HoldStatements(o ledger.Opening, c ledger.Change) int {
	reading, batch := false, &pgx.Batch{}
	(&Store{}).statements(batch, []*write{
		opens(&o), changes(&c),
	}, &reading)
	return batch.Len() - 2
}

// ForgetRefusals makes the store decide the next opening by a transaction,
// whatever was refused before.
func (s *Store) ForgetRefusals() {
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	s.refusals.until = nil
}

// Census is the statement that counts what is open.
func Census() Batch {
	s := prepare(censusSQL)
	return Batch{SQL: s.sql, Parameters: len(s.names)}
}

// CensusOf is a census that reads so few rows.
func (s *Store) CensusOf(ctx context.Context, rows, reviews int) (ledger.Census, error) {
	return s.census(ctx, censusLimits{rows, reviews})
}

// AnswerWithin sets how long a single statement may take. Call it before the store
// is used.
func (s *Store) AnswerWithin(d time.Duration) { s.pool.answer = d }

// RefuseReads makes a store behave as if too many look-ups waited.
func (s *Store) RefuseReads() { s.reads.limit = 0 }
