package ledger

import (
	"errors"
	"fmt"
	"time"
)

// ReasonRestored is the reason of a doubt that a restore left: what the ledger knew
// of the operation may be older than what was done about it. Only a find or a person
// ends such a doubt (docs/decisions/017).
const ReasonRestored = "restored"

// Restore is one time that the ledger came back as it was earlier. While it is in
// force no new operation is claimed: it is recorded in doubt.
type Restore struct {
	ID string // UUIDv7
	// What was written from LostFrom until LostUntil may be missing.
	LostFrom, LostUntil time.Time
	BegunAt             time.Time
	BegunBy             string
	EndedAt             time.Time // zero while it is in force
	EndedBy             string
	Clearances          []Clearance
}

// InForce reports whether nobody has ended it.
func (r Restore) InForce() bool { return r.EndedAt.IsZero() }

// Forgot reports whether a correction of a failed operation may be among what was
// lost: it had failed before the recovery began. What is learned of it later makes no
// difference.
func (r Restore) Forgot(failed Operation) bool { return !failed.SettledAt.After(r.BegunAt) }

// Clearance ends a restore for a part of what it is about.
type Clearance struct {
	Tenant     string // or AllTenants, with an action type
	ActionType string // empty: all of the tenant's
	Reason, By string
	At         time.Time
}

// RestoreCounts is how far a recovery is.
type RestoreCounts struct {
	InDoubt    int64 // restored doubts that the reconciler still looks into
	WithPeople int64 // operations that were in doubt since the restore and wait for a person
	Recorded   int64 // new operations that were recorded in doubt since it began
	// LastRecorded is when the latest of those came in; zero where none did.
	LastRecorded time.Time
}

// ErrServing: something serves this ledger, so that a restore cannot begin.
var ErrServing = errors.New("ledger: a service is connected to it")

// RestoredError says that an operation cannot be corrected, since the ledger was
// restored and the correction may have been made in the time that was lost. Nothing
// was changed.
type RestoredError struct {
	Restore Restore
}

func (e *RestoredError) Error() string {
	return fmt.Sprintf("ledger: restored: what was done from %s until %s is not known", e.Restore.LostFrom.Format(time.RFC3339), e.Restore.LostUntil.Format(time.RFC3339))
}
