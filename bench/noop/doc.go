// Package noop is the action type that is measured: its provider answers at once
// with a receipt, so that all the time there is, is Onceward's.
package noop
