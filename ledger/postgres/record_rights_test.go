package postgres_test

import (
	"testing"

	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// TestMayChangeRecord: the owner of the tables may change the record, and who
// serves may not.
func TestMayChangeRecord(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	for url, want := range map[string]bool{db.OwnerURL: true, db.ServeURL: false} {
		store, err := postgres.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		may, err := store.MayChangeRecord(t.Context())
		store.Close()
		if err != nil || may != want {
			t.Errorf("may change the record: %v (%v), want %v", may, err, want)
		}
	}
}
