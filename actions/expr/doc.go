// Package expr evaluates the expressions of declared providers and actions. CEL
// (Common Expression Language) is the one language; [NewEnv] says which
// variables there are, [Env.Expression] compiles one expression,
// [Env.Template] a text with "${…}", and [Env.Tree] a whole tree of such texts,
// such as the body of a request.
//
// Numbers lose no digit: an integer is an int (64 bits), every other number a
// decimal that can be compared, turned into text and passed on as it was written.
// A result that would be a computed double is refused, because rounding money is
// never right.
//
// Everything is pure: no clock, no chance, no I/O, and a bound on the cost. The
// same variables give the same result.
//
// The package must never know what an expression is for. It imports CEL and the
// standard library.
package expr
