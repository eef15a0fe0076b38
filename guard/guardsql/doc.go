// Package guardsql remembers operations in the service's own Postgres.
//
// [Once] is the better way: claim, write and response are one transaction, so
// that a crash undoes all of them and there is never a doubt. [Store] is for
// handlers that cannot do that; it is a guard.Store for the middleware.
//
// [Schema] is the one table of both; put it into the service's migrations. Any
// database/sql driver for Postgres will do.
//
// The package imports guard and database/sql, and must know nothing else of
// Onceward.
package guardsql
