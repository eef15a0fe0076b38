// Package privatepg runs a Postgres server that belongs to one process: for
// "onceward dev" and for tests, so that neither needs anything installed by
// hand or configured.
//
// [Start] finds the server's programs ([Find]), makes a cluster in a named
// folder when there is none, and starts it on 127.0.0.1. The server ends with
// [Server.Stop], and it also ends when the process that started it dies in any
// other way, kill -9 included. The data stay: nothing here ever removes a
// cluster.
//
// What a folder given as [Options].Dir holds:
//
//	data/         the cluster, owned by the account that Postgres runs as
//	password      the superuser's password, mode 0600, unless one is given
//	server.log    what Postgres says, mode 0600
//	server.log.1  the log before that
//	lock          held (flock) by the process that uses the folder
//
// It is not a way to run Postgres in production: it makes no backups, upgrades
// nothing and tunes nothing.
//
// The package must never know what is stored in the server: no ledger, no
// migrations, no tenants. It imports the standard library and pgx, and nothing
// else of this module.
package privatepg
