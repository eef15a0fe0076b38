// Package strictyaml reads YAML files that people write for machines to obey:
// exactly one document, which means what everybody sees in it, bounded in size,
// checked against a JSON Schema. What is wrong is a [Fault] with file, line,
// column, field and what is wanted.
//
// The package must never know what a file is for, and does no I/O. It imports a
// YAML and a JSON Schema library.
package strictyaml
