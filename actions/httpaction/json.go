package httpaction

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/actions"
)

// PickJSON returns an object with the named top-level fields of body, in the
// order of the names and without white space. Numbers keep their digits. Text
// that databases refuse (NUL, lone surrogates, invalid UTF-8) is replaced by
// U+FFFD: a strange character must never turn a success into a failure.
//
// It fails when body is not exactly one JSON object or when a named field is
// missing or appears twice.
func PickJSON(body []byte, fields ...string) (json.RawMessage, error) {
	found := make(map[string][]byte, len(fields))
	err := eachMember(body, func(name string, dec *jsontext.Decoder) error {
		if !slices.Contains(fields, name) {
			return dec.SkipValue()
		}
		if _, twice := found[name]; twice {
			return fmt.Errorf("field %s appears twice", quoted(name))
		}
		value, err := cleanValue(dec)
		found[name] = value
		return err
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, name := range fields {
		value, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("field %s is missing", quoted(name))
		}
		out.WriteByte("{,"[min(i, 1)])
		out.Write(quoted(name))
		out.WriteByte(':')
		out.Write(value)
	}
	if len(fields) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// JSONReceipt returns a function for Rules.Receipt that is ReceiptOf the body.
func JSONReceipt(reference string, fields ...string) func(Exchange) (actions.Receipt, error) {
	return func(x Exchange) (actions.Receipt, error) { return ReceiptOf(x.Body, reference, fields...) }
}

// ReceiptOf makes a receipt from one JSON object: it holds the fields (see
// PickJSON), and its reference is the field named reference, a string or a
// number that must not be empty. From a body that is cut or lacks a field it
// still takes the reference where that can be read, beside the error.
func ReceiptOf(body []byte, reference string, fields ...string) (actions.Receipt, error) {
	receipt := actions.Receipt{Reference: readReference(body, reference)}
	if receipt.Reference == "" {
		return receipt, fmt.Errorf("the answer has no %s", quoted(reference))
	}
	picked, err := PickJSON(body, fields...)
	receipt.JSON = picked
	return receipt, err
}

// JSONOrigin is the usual origin proof: a complete body that is declared as
// JSON and is one JSON object. Proxies that invent answers mostly send HTML or
// text; where one sends JSON, look for a header or a field that only the
// provider sets.
func JSONOrigin(x Exchange) bool {
	if !x.Complete || !x.declaredJSON() {
		return false
	}
	return eachMember(x.Body, func(_ string, dec *jsontext.Decoder) error { return dec.SkipValue() }) == nil
}

// JSONError returns a function for Rules.Error that reads an error's code and
// message from a JSON body, at dotted paths such as "error.code". What is not
// there, or is no string or number, is empty.
func JSONError(codePath, messagePath string) func(body []byte) (code, message string) {
	return func(body []byte) (string, string) {
		return textAt(body, codePath), textAt(body, messagePath)
	}
}

func textAt(body []byte, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil {
			return ""
		}
		body = object[name]
	}
	return scalarText(body)
}

// scalarText returns the text of a JSON string or number, else "".
func scalarText(value []byte) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return number.String()
	}
	return ""
}

// maxReferenceBytes bounds a provider's id: a longer text is none.
const maxReferenceBytes = 255

var errStop = errors.New("stop")

// readReference returns the first member named field, also when the body is cut
// behind it.
func readReference(body []byte, field string) string {
	var reference string
	_ = eachMember(body, func(name string, dec *jsontext.Decoder) error { // a cut body is the point
		if name != field {
			return dec.SkipValue()
		}
		value, err := cleanValue(dec)
		if err != nil {
			return err
		}
		if dec.PeekKind() == 0 { // the body is cut here: a number may lack digits
			return errStop
		}
		reference = scalarText(value)
		return errStop
	})
	if len(reference) > maxReferenceBytes {
		return ""
	}
	return reference
}

// eachMember calls do for each member of the one object that body holds; do
// must consume the value. It reads what strict parsers refuse in strings and
// names, and a byte order mark.
func eachMember(body []byte, do func(name string, dec *jsontext.Decoder) error) error {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), tolerant()...) // a Buffer is read without a copy
	if dec.PeekKind() != '{' {
		return errors.New("the body is not a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return notJSON(err)
		}
		if err := do(name.String(), dec); err != nil {
			return notJSON(err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errors.New("the body goes on after its JSON object")
	}
	return nil
}

// notJSON takes the text of the body out of a parser's error.
func notJSON(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("the body is not whole JSON (at byte %d)", syntax.ByteOffset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the body is not whole JSON (it is cut)")
	}
	return err
}

// cleanValue copies the next value without what databases refuse in text.
func cleanValue(dec *jsontext.Decoder) ([]byte, error) {
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, tolerant()...)
	depth := dec.StackDepth()
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		if tok.Kind() == '"' {
			tok = jsontext.String(strings.ReplaceAll(tok.String(), "\x00", "\uFFFD"))
		}
		if err := enc.WriteToken(tok); err != nil {
			return nil, err
		}
		if dec.StackDepth() == depth {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
		}
	}
}

func tolerant() []jsontext.Options {
	return []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}
}

// quoted returns name as a JSON string.
func quoted(name string) []byte {
	q, err := jsontext.AppendQuote(nil, name)
	if err != nil { // invalid UTF-8 in a name of our own program
		return []byte(`""`)
	}
	return q
}
