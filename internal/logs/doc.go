// Package logs writes log lines together: a line for each request is cheap, a
// system call for each is not.
//
// [New] makes a logger and the function that writes out what it still holds,
// which an orderly end calls last. Lines wait at most [Delay]; a line of level
// Warn or above is written at once, and with it everything before. Only a
// process that is killed loses lines, those of its last [Delay]: what must not
// be lost is in the audit record.
//
// The package imports the standard library only.
package logs
