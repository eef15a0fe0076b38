// Package cases runs tables of requests against policies: what `onceward policy
// test` does. It is pure, as the decisions are.
//
// The package must never know files or commands. It imports policy and its
// language, and actions for the description of action types.
package cases
