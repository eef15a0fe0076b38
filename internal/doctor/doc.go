// Package doctor looks at an installation before money moves through it: at the
// database and the settings that endanger what it acknowledged, at clocks,
// connections and schema, and at contracts whose windows are shorter than the
// retries that rely on them. It changes nothing.
//
// What is wrong is decided by pure functions over facts (judge*.go); only
// facts.go asks the database. It must know no command line and no server.
package doctor
