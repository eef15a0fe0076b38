package ledger

import (
	"errors"
	"time"
)

// ErrNoStatistics: the schema is older than tallies and observations; nothing is
// counted or observed until the database is migrated.
var ErrNoStatistics = errors.New("ledger: the schema has no tallies and observations: run onceward migrate")

// Observed is an observation as it was recorded: its outcome is what the ledger
// found.
type Observed struct {
	Observation

	At time.Time // by the ledger's clock
}
