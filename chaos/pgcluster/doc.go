// Package pgcluster runs a Postgres as production has it, to break it: a primary
// with a synchronous standby, a pooler, a disk that fills up. Everything is on this
// machine, on loopback, and ends with this process.
//
// What the primary acknowledges is on its disk and on the standby's: fsync and
// synchronous_commit stay on, synchronous_standby_names names the standby. So a
// failover by promotion may lose nothing that anybody was told. While there is no
// standby (after a failover, until a new one has caught up) commits wait, which is
// what an operator who wants no loss asks for.
//
// The database is migrated and has a login for serving. The package imports
// internal/privatepg, which runs one server, and migrations; it must never know
// what Onceward does with the database.
package pgcluster
