// Package collector checks deploy/otel-collector.yaml with the collector itself,
// in-process: it starts on the file, takes a span and hands it to a store.
//
// It is a module of its own, because the collector brings hundreds of dependencies
// that must never meet Onceward's. It knows nothing of Onceward but the file, and
// `make test-collector` runs it.
package collector
