package actions

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Redacted stands in the place of a sensitive value.
const Redacted = "[redacted]"

// Redact returns a JSON text in which [Redacted] stands in place of every value
// at one of the dotted paths ([Spec.SensitiveArgs], [Spec.SensitiveReceipt]),
// whatever its type. A path goes through lists: "items.card" is the card of each
// item, "items.0.card" that of the first. Everything else keeps its order and
// its digits, and loses its white space.
//
// What is no JSON text becomes [Redacted] as a whole: nobody knows what is in
// it. No text (nothing at all) stays none.
func Redact(text []byte, paths []string) []byte {
	if len(paths) == 0 || len(text) == 0 {
		return text
	}
	split := make([][]string, len(paths))
	for i, p := range paths {
		split[i] = strings.Split(p, ".")
	}
	var out bytes.Buffer
	// As a receipt may be: what is strange in it is no reason to show it.
	lenient := jsontext.AllowDuplicateNames(true)
	r := redactor{
		in:  jsontext.NewDecoder(bytes.NewReader(text), lenient, jsontext.AllowInvalidUTF8(true)),
		out: jsontext.NewEncoder(&out, lenient, jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true)),
	}
	err := r.value(split)
	if err == nil {
		if _, end := r.in.ReadToken(); !errors.Is(end, io.EOF) {
			err = errTrailing
		}
	}
	if err != nil {
		return []byte(strconv.Quote(Redacted))
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// minScrubbed is the shortest value that is looked for, in bytes: a shorter one
// would match innocent text.
const minScrubbed = 4

// Scrub returns a text in which [Redacted] stands in place of every sensitive
// argument that it repeats: providers say in their errors what they were sent.
// It finds the texts and numbers at the dotted paths ([Spec.SensitiveArgs]) and
// below them as they are spelt in the arguments, and as JSON and URLs spell them.
func (a Arguments) Scrub(text string, paths []string) string {
	if text == "" || len(paths) == 0 {
		return text
	}
	var values []string
	for _, path := range paths {
		values = appendScalars(values, a.value, strings.Split(path, "."))
	}
	for _, value := range values {
		values = append(values, respelt(value)...)
	}
	// The longest first: what is left of a longer one would still tell a part.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, value := range slices.Compact(values) {
		text = strings.ReplaceAll(text, value, Redacted)
	}
	return text
}

// respelt is a text as errors repeat it that quote a request: inside of JSON (with
// and without what is escaped for HTML), in a query and in a path.
func respelt(text string) []string {
	spellings := []string{url.QueryEscape(text), url.PathEscape(text)}
	for _, forHTML := range [...]bool{false, true} {
		var quoted bytes.Buffer
		e := json.NewEncoder(&quoted)
		e.SetEscapeHTML(forHTML)
		if err := e.Encode(text); err == nil {
			spellings = append(spellings, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(quoted.String()), `"`), `"`))
		}
	}
	return slices.DeleteFunc(spellings, func(s string) bool { return s == text })
}

// appendScalars appends the texts and numbers at a path and below it, through
// lists.
func appendScalars(values []string, at any, path []string) []string {
	switch v := at.(type) {
	case map[string]any:
		if len(path) > 0 {
			return appendScalars(values, v[path[0]], path[1:])
		}
		for _, member := range v {
			values = appendScalars(values, member, nil)
		}
	case []any:
		for i, element := range v {
			if len(path) > 0 && path[0] == strconv.Itoa(i) {
				values = appendScalars(values, element, path[1:])
			}
			values = appendScalars(values, element, path)
		}
	case string:
		if len(path) == 0 && len(v) >= minScrubbed {
			values = append(values, v)
		}
	case json.Number:
		if len(path) == 0 && len(v) >= minScrubbed {
			values = append(values, v.String())
		}
	}
	return values
}

var errTrailing = errors.New("more than one value")

// redactor copies one value.
type redactor struct {
	in  *jsontext.Decoder
	out *jsontext.Encoder
}

// value copies the next value without what is at the paths in it.
func (r redactor) value(paths [][]string) error {
	for _, p := range paths {
		if len(p) == 0 {
			if err := r.in.SkipValue(); err != nil {
				return err
			}
			return r.out.WriteToken(jsontext.String(Redacted))
		}
	}
	kind := r.in.PeekKind()
	if len(paths) == 0 || kind != '{' && kind != '[' {
		whole, err := r.in.ReadValue()
		if err != nil {
			return err
		}
		return r.out.WriteValue(whole)
	}
	if _, err := r.token(); err != nil {
		return err
	}
	for i := 0; r.in.PeekKind() != '}' && r.in.PeekKind() != ']'; i++ {
		var within [][]string
		if kind == '{' {
			name, err := r.token()
			if err != nil {
				return err
			}
			within = below(paths, name)
		} else {
			// The item at that index, and what the whole path names in each item.
			within = append(below(paths, strconv.Itoa(i)), paths...)
		}
		if err := r.value(within); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

// token copies one token and returns its text.
func (r redactor) token() (string, error) {
	t, err := r.in.ReadToken()
	if err != nil {
		return "", err
	}
	text := t.String()
	return text, r.out.WriteToken(t)
}

// below are the rests of the paths that begin with a name.
func below(paths [][]string, name string) (rests [][]string) {
	for _, p := range paths {
		if p[0] == name {
			rests = append(rests, p[1:])
		}
	}
	return rests
}
