package fakeprovider

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// failure is an error answer in the shape of the built-in resources.
func failure(status int, kind, code, message string) Answer {
	return failureWith(status, map[string]any{"type": kind, "code": code, "message": message})
}

func failureWith(status int, fields map[string]any) Answer {
	return Answer{Status: status, Body: encode(map[string]any{"error": fields})}
}

func plainFailure(f Failure) Answer { return failure(f.Status, f.Type, f.Code, f.Message) }

// encode writes what this package built itself: maps of strings and numbers
// and JSON that was valid on arrival, which cannot fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("fakeprovider: cannot encode its own value: " + err.Error())
	}
	return b
}

// spoil returns the object in body with rubbish at the end of a text field.
// It writes the object by hand, since json.Marshal would mend the rubbish. A
// body that is no object stays as it is.
func spoil(body []byte, field, rubbish string) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return body
	}
	var text string
	if raw, ok := members[field]; ok && json.Unmarshal(raw, &text) != nil {
		text = string(raw) // not a text: its JSON becomes one
	}
	quoted := encode(text)
	quoted = append(quoted[:len(quoted)-1], rubbish+`"`...)
	members[field] = quoted

	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(members)) {
		out.WriteByte("{,"[min(i, 1)])
		out.Write(encode(name))
		out.WriteByte(':')
		out.Write(members[name])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// pad returns the object in body with a member that brings it to size bytes.
func pad(body []byte, size int) []byte {
	const start, end = `{"padding":"`, `",`
	fill := size - len(body) - len(start) - len(end) + 1
	if fill <= 0 || len(body) < 3 || body[0] != '{' {
		return body
	}
	out := make([]byte, 0, size)
	out = append(out, start...)
	out = append(out, bytes.Repeat([]byte{'x'}, fill)...)
	out = append(out, end...)
	return append(out, body[1:]...)
}
