package actions

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Redacted stands in the place of what nobody is to see.
const Redacted = "[redacted]"

// Redact returns a receipt with Redacted as the value of the named top-level
// members, whatever they were. Everything else stays byte for byte, and a receipt
// without them is returned as it is. One that cannot be read as an object is not
// known to be without them, and gives way to an object that says so.
func Redact(receipt json.RawMessage, names []string) json.RawMessage {
	if len(names) == 0 || len(receipt) == 0 {
		return receipt
	}
	out, ok := redact(receipt, names)
	if !ok {
		return json.RawMessage(`{"receipt_unreadable":true}`)
	}
	return out
}

func redact(receipt json.RawMessage, names []string) (out json.RawMessage, ok bool) {
	// What encoding/json would read must be read here, so that nothing slips by:
	// equal names and broken text too.
	dec := jsontext.NewDecoder(bytes.NewReader(receipt), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if begin, err := dec.ReadToken(); err != nil || begin.Kind() != '{' {
		return nil, false
	}
	kept := int64(0) // of receipt, in out
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		hide := slices.Contains(names, name.String())
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		if end := dec.InputOffset(); hide {
			out = append(out, receipt[kept:end-int64(len(value))]...)
			out = append(out, `"`+Redacted+`"`...)
			kept = end
		}
	}
	if kept == 0 {
		return receipt, true
	}
	return append(out, receipt[kept:]...), true
}
