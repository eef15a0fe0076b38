// Package scenarios holds tests that break one thing at a time, on purpose and in
// every way that is known: each TCP edge, Postgres and its standby, its pooler, its
// disk, its connections, its clock, and our own COMMIT. Callers keep asking
// meanwhile, a real replica answers them, and the fake provider keeps its books.
//
// Every test ends with the same judgement ([stage.judge] in harness_test.go): one
// effect for each confirmed key, every receipt that a caller was told is in the
// ledger byte for byte, nothing is stuck, and how long that took after the fault.
// docs/reliability.md lists the faults, what was done and what was seen.
//
// It needs Postgres, PgBouncer and libfaketime (Debian and Ubuntu: apt-get install
// postgresql pgbouncer faketime), and root on Linux for a disk that fills up. What is
// missing fails its test and says what to install.
package scenarios
