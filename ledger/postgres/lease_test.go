package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// L4: one lease stands for the operations of one transaction. When it ends,
// each of them is where it should be, whatever became of it meanwhile.
func TestLaw04_SharedLease(t *testing.T) {
	t.Parallel()
	store, db := patient(t)
	release := held(t, store, db)
	ops := make([]ledger.Operation, 6)
	const dead, settled, patient, locked, deferred, doubted = 0, 1, 2, 3, 4, 5
	all := together(t, store, len(ops), func(i int) {
		o := ledgertest.Opening(acme)
		o.Start.Lease = time.Minute
		if i == patient {
			o.Start.Lease = time.Hour
		}
		var err error
		if ops[i], _, err = store.Open(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
	release()
	all.Wait()
	if n := db.Count(t, `SELECT count(*) FROM leases WHERE idempotency_keys @> ARRAY[$1::text, $2]`, ops[dead].Key, ops[doubted].Key); n != 1 {
		t.Fatalf("the operations are in %d leases together, want one", n)
	}
	apply(t, store, ledgertest.Change(ops[settled], ledger.Confirm))
	apply(t, store, ledgertest.Change(ops[deferred], ledger.Defer))
	apply(t, store, ledgertest.Change(ops[doubted], ledger.Doubt))
	// A minute passes.
	db.Exec(t, `SET session_replication_role = replica;
		UPDATE operations SET lease_expires_at = lease_expires_at - interval '1 minute';
		UPDATE leases SET expires_at = expires_at - interval '1 minute'`)
	other := db.Owner(t)
	if _, err := other.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `SELECT FROM operations WHERE id = $1::uuid FOR UPDATE`, ops[locked].ID); err != nil {
		t.Fatal(err)
	}

	expired, more, err := store.ExpireLeases(t.Context(), 10)
	if err != nil || more || !slices.Equal(ids(expired), []string{ops[dead].ID}) {
		t.Errorf("expired %v, more %v, %v; want %s", ids(expired), more, err, ops[dead].ID)
	}
	if got := ledgertest.Get(t, store, ops[dead]); got.State != ledger.Unknown || got.Attempts[0].Outcome != "lease_expired" || got.Attempts[0].EndedAt.IsZero() {
		t.Errorf("an operation whose worker is gone: %s, %+v", got.State, got.Attempts)
	}
	for what, op := range map[string]ledger.Operation{"with time left": ops[patient], "being settled": ops[locked]} {
		if n := db.Count(t, `SELECT count(*) FROM leases WHERE $1 = ANY (idempotency_keys) AND expires_at > now()`, op.Key); n != 1 {
			t.Errorf("an operation %s is in %d leases that run, want one", what, n)
		}
	}
	for _, i := range []int{dead, settled, deferred, doubted} {
		if n := db.Count(t, `SELECT count(*) FROM leases WHERE $1 = ANY (idempotency_keys)`, ops[i].Key); n != 0 {
			t.Errorf("operation %d, which does not run, is in %d leases", i, n)
		}
	}
	// What was locked is looked at again, and the last one in its time.
	if _, err := other.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	for _, op := range []ledger.Operation{ops[locked], ops[patient]} {
		db.Age(t, op, time.Hour)
		if expired, _, err := store.ExpireLeases(t.Context(), 10); err != nil || !slices.Contains(ids(expired), op.ID) {
			t.Errorf("expired %v, %v; want %s", ids(expired), err, op.ID)
		}
	}
}
