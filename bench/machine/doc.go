// Package machine says what machine this is and what processes use: processor
// time and memory, from /proc. Where there is no /proc it says that it does not
// know.
//
// It must know no contestant. It imports the standard library only.
package machine
