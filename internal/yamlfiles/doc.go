// Package yamlfiles finds and reads the YAML files of an installation, and says
// when they have changed. Definitions and policies are read alike.
//
// The package must never know what is in a file. It imports strictyaml for its
// limit, and nothing else of this module.
package yamlfiles
