package httpaction

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxParseDepth bounds how deep lists and objects of an answer nest.
const maxParseDepth = 256

// ParseJSON reads a body that is exactly one JSON value, as nil, bool, string,
// json.Number, []any and map[string]any. Numbers keep their digits. Text that
// databases refuse is replaced by U+FFFD, and a byte order mark is passed over,
// as in [PickJSON].
//
// It refuses an object that names a member twice: which of the two the provider
// means cannot be told.
func ParseJSON(body []byte) (any, error) {
	body = bytes.TrimPrefix(body, []byte("\uFEFF"))
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true))
	value, err := parseValue(dec)
	if err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.New("the body goes on after its JSON value")
	}
	return value, nil
}

func parseValue(dec *jsontext.Decoder) (any, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if dec.StackDepth() > maxParseDepth {
		return nil, errors.New("the body is nested too deep")
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return CleanText(tok.String()), nil
	case '0':
		return json.Number(tok.String()), nil
	case '[':
		return parseList(dec)
	default:
		return parseObject(dec)
	}
}

func parseList(dec *jsontext.Decoder) (any, error) {
	list := []any{}
	for dec.PeekKind() != ']' {
		value, err := parseValue(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := dec.ReadToken()
	return list, err
}

func parseObject(dec *jsontext.Decoder) (any, error) {
	object := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		clean := CleanText(name.String()) // the token is void after the next read
		value, err := parseValue(dec)
		if err != nil {
			return nil, err
		}
		object[clean] = value
	}
	_, err := dec.ReadToken()
	return object, err
}

// CleanText replaces what databases refuse in text (NUL, invalid UTF-8) by
// U+FFFD.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// JSONAnswer reports whether an answer is complete, is declared as JSON and is
// one JSON value; unlike [JSONOrigin] it takes lists too. value is that of
// ParseJSON.
func JSONAnswer(x Exchange) (value any, ok bool) {
	if !x.Complete || !x.declaredJSON() {
		return nil, false
	}
	value, err := ParseJSON(x.Body)
	return value, err == nil
}
