// Package external measures contestants that are modules of their own, because
// their servers bring more dependencies than all the rest: it builds them, runs
// them beside this process, and reads the measurements that they print.
//
// Such a program is given -postgres=URL -dir=FOLDER -concurrency=N -seconds=S
// and, where duplicates are wanted, -duplicates. It prints one line of JSON for
// each measurement (contest.Measurement), or one with "skipped".
package external
