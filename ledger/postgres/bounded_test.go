package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// What reads all operations of a large ledger is not cut off as a request is.
func TestRestoreTakesAsLongAsItTakes(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	owner := owned(t, db)
	owner.AnswerWithin(time.Nanosecond)
	if _, err := owner.Restores(t.Context(), true); !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("a statement that is bounded: %v", err) // or the rest proves nothing
	}
	if _, err := owner.BeginRestore(t.Context(), lost()); err != nil {
		t.Errorf("begin: %v", err)
	}
	if _, err := owner.RestoreCounts(t.Context(), time.Now()); err != nil {
		t.Errorf("counts: %v", err)
	}
}
