// Package definition is the language in which providers and action types are
// declared: YAML files, their strict reading, their checks, and the JSON
// Schemas that editors use.
//
// A provider file ([Provider]) is a provider contract: where the provider is,
// how we prove who we are, what it does with keys, what its answers mean and
// how an effect is found again. An action file ([Action]) is one action type on
// a provider: its arguments, its key recipe, its request and its receipt. CEL is
// the one expression language, compiled by package expr.
//
// [Load] reads folders and files into a [Set] in which everything was checked;
// a file with a fault is never half used. Faults carry file, line, column and
// field ([Fault]).
//
// The package must never know HTTP, SQL or any wire, and resolves no secret: it
// reads text and says what it means. It imports actions, expr and a YAML
// library.
package definition
