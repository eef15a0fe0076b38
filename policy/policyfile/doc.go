// Package policyfile is the language in which tenants' policies are written: YAML
// files, one a tenant, and tables of cases that test them. It reads them strictly
// and has their JSON Schemas; package policy compiles and decides.
//
// The package must never know a decision, and does no I/O. It imports strictyaml.
package policyfile
