// Package agenttrace holds the sample trace that "onceward demo" plays: what
// agents send in a day's work, with their retries, replays and rephrasings.
// README.md beside it explains the fields.
//
// It is data. It must never know how a trace is read or played, and imports
// nothing.
package agenttrace

import _ "embed"

// Name is the name of the trace's file, for error messages.
const Name = "agent-trace.jsonl"

//go:embed agent-trace.jsonl
var trace []byte

// Trace returns the trace, one JSON object a line. The caller must not change
// it.
func Trace() []byte { return trace }
