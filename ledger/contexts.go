package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// Each operation brings two small JSON objects: where in a run it came from, and
// what its first event says of its request. They are written as encoding/json would
// write them, straight into a message and without looking at types: by reflection,
// and as texts first, they were half of what a new operation cost the program that
// writes it.

// KeyHash names an idempotency key where the key itself is not kept.
func KeyHash(key string) Hash {
	var room [255]byte // no key is longer
	return sha256.Sum256(append(room[:0], key...))
}

// AppendJSON adds the context as JSON. Of the key, where there is one, it has the
// hash, whatever KeyHash says.
func (c *EventContext) AppendJSON(b []byte, key string) []byte {
	b = appendQuoted(appendName(append(b, '{'), "action_type"), c.ActionType)
	if key != "" {
		hash := KeyHash(key)
		b = append(hex.AppendEncode(append(appendName(b, "key_hash"), '"'), hash[:]), '"')
	}
	b = c.Run.AppendJSON(appendName(b, "run"))
	b = appendMember(b, "decision", c.Decision)
	b = appendMember(b, "reason", c.Reason)
	b = appendMember(b, "rule", c.Rule)
	b = appendMember(b, "policy_version", c.PolicyVersion)
	b = appendMember(b, "stage", string(c.Stage))
	b = appendMember(b, "amount", c.Amount)
	b = appendMember(b, "currency", c.Currency)
	return append(b, '}')
}

// AppendJSON adds the run as JSON.
func (r *Run) AppendJSON(b []byte) []byte {
	b = appendMember(append(b, '{'), "run_id", r.RunID)
	b = appendMember(b, "step_id", r.StepID)
	if r.Attempt != 0 {
		b = strconv.AppendInt(appendName(b, "attempt"), int64(r.Attempt), 10)
	}
	b = appendMember(b, "tool_call_id", r.ToolCallID)
	b = appendMember(b, "tool_version", r.ToolVersion)
	b = appendMember(b, "agent", r.Agent)
	b = appendMember(b, "instance", r.Instance)
	b = appendMember(b, "traceparent", r.TraceParent)
	return append(b, '}')
}

// appendMember adds a member of an object that has a text; it is left out where that
// is empty.
func appendMember(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendQuoted(appendName(b, name), text)
}

// appendName begins a member, after a comma unless it is the object's first. Names
// are ours: nothing in them is escaped.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), name...)
	return append(b, '"', ':')
}

// appendQuoted adds a text as a JSON string. What encoding/json might escape it writes
// itself.
func appendQuoted(b []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			escaped, _ := json.Marshal(text) // a text: it cannot fail
			return append(b, escaped...)
		}
	}
	b = append(append(b, '"'), text...)
	return append(b, '"')
}
