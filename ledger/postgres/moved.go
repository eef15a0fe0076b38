package postgres

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/onceward/onceward/ledger"
)

// facts are what change.sql returns of an operation that it moved, but for its id;
// of a new one there is only when.
type facts struct {
	at                                time.Time
	revision                          int64
	reference, incident               string
	lease, resolves                   int
	nextAttempt, windowEnds, watching time.Time
}

// facts reads them, in the order of the columns.
func (a *answer) facts() facts {
	return facts{
		at: a.time(), revision: a.int8(), reference: a.text(), incident: a.text(), lease: a.int4(), resolves: a.int4(),
		nextAttempt: a.timeOrNull(), windowEnds: a.timeOrNull(), watching: a.timeOrNull(),
	}
}

// moved is an operation as change.sql leaves it.
func moved(c *ledger.Change, f *facts) ledger.Operation {
	op := c.Operation
	op.Review, op.Attempts = nil, nil
	op.State, op.LastEvent = moveTo(c), c.Event
	op.Effect, op.Reason, op.InDoubt = c.Effect, c.Reason, inDoubt(c)
	// The change's own receipt may be in memory that its adapter uses again.
	op.Receipt, op.Failure = bytes.Clone(c.Receipt), storedFailure(c)
	if c.BumpEpoch {
		op.Epoch, op.RequestHash, op.KeyHorizon = op.Epoch+1, nil, time.Time{}
	}
	if op.State == ledger.Succeeded && op.Attempt == 1 {
		op.KeyHorizon = time.Time{}
	}
	op.UpdatedAt, op.Revision = f.at, f.revision
	if c.Event == ledger.Doubt {
		op.DoubtedAt = op.UpdatedAt
	}
	op.ProviderReference, op.Incident, op.Lease = f.reference, f.incident, f.lease
	op.Resolves, op.NegativeReads = f.resolves, 0
	op.LeaseExpiresAt, op.NextAttemptAt = time.Time{}, f.nextAttempt
	op.SettledAt, op.WindowEndsAt, op.WatchUntil = time.Time{}, f.windowEnds, f.watching
	if op.State.Final() {
		op.SettledAt = op.UpdatedAt
	}
	return op
}

// storedFailure is the failure of a change as it comes back from the ledger.
func storedFailure(c *ledger.Change) *ledger.Failure {
	encoded := failureJSON(c.Failure)
	if encoded == nil {
		return nil
	}
	var failure ledger.Failure
	_ = json.Unmarshal(encoded, &failure) // it was encoded from one
	return &failure
}
