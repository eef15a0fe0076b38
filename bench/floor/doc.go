// Package floor measures what Postgres does with the same statements and no Go at
// all: pgbench, one row a statement, each statement its own commit.
package floor
