// Package pgtest gives tests a real Postgres: a database of their own, made
// from a template in some 20 to 100 ms, on a server that runs once per test binary.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		url := pgtest.NewDatabase(t, pgtest.Template{Name: "ledger", Prepare: migrate})
//		...
//	}
//
// The server is started at the first use, so a package pays nothing for tests
// that need none. [NewServer] gives a test a server that it may stop, kill and
// start again. When ONCEWARD_TEST_POSTGRES_URL is set, databases are made on
// that server instead; its user must be allowed to create databases, and where
// templates make roles, roles.
//
// A goleak check sees the goroutine that watches the server: let it ignore
// what runs after the first NewDatabase (goleak.IgnoreCurrent).
//
// The package must never know what a template holds: migrations are passed in
// as a function. It imports the standard library, pgx, x/sys and
// internal/privatepg, and only tests import it.
package pgtest
