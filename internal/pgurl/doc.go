// Package pgurl reads the URL, or DSN, of a Postgres whose password must not come
// out. The driver's own error repeats the whole text and leaves out a password where
// it recognises one, which it does not in each form that it takes; and a password
// with an "@" that is not escaped becomes a part of the host, which resolvers name.
//
// It must never know what a database is for. It imports the driver alone.
package pgurl
