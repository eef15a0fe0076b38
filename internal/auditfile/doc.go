// Package auditfile keeps a part of the audit record as a file: lines of JSON
// under gzip, and beside it a manifest that says what must be in it.
//
// Use [Write] to make one, [Verify] before anything relies on it, and [Lines] to
// read it. A file has
// its name only when it is whole and on the disk, and the manifest comes last:
// a manifest that is there belongs to a file that was complete.
//
// The package knows nothing of databases. It imports the standard library.
package auditfile
