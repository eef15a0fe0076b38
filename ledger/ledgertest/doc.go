// Package ledgertest gives tests a ledger: a migrated database of their own,
// a store that is connected to it as a serving replica would be, operations in
// every state, and a look at what was written.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		store, db := ledgertest.NewStore(t)
//		tenant := db.Tenant(t, "acme")
//		op := ledgertest.InState(t, store, tenant, ledger.Unknown)
//		...
//		db.Age(t, op, time.Hour) // as if an hour had passed
//		events := db.Audit(t, op)
//	}
//
// The store's role may do what onceward_serve may and owns nothing, so that a
// test fails where a grant is missing. Assertions use the owner's connection.
//
// The package must never know adapters, the server or the reconciler. It
// imports ledger, ledger/postgres, migrations, internal/pgtest and pgx, and
// only tests import it.
package ledgertest
