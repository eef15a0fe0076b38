package actions

import (
	jsonv1 "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode stores the arguments in the value that into points at, most often a
// struct with `json` tags. Member names must match in case; members without a
// field are passed over (the schema decides whether they may exist).
//
// No digit is lost: numbers arrive in an any as [encoding/json.Number], and one
// that the field's type cannot hold (300 in an int8, 9007199254740993 in a
// float64) is an error. A defined type over a float is beyond that check: use
// integers, big.Int or json.Number for money.
//
// The error is an *ArgumentsError that names the first field which does not
// fit, or another one where into is no pointer.
func (a Arguments) Decode(into any) error {
	if v := reflect.ValueOf(into); v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("decoding arguments: want a pointer that is not nil, got %T", into)
	}
	err := json.Unmarshal(a.text(), into, json.WithUnmarshalers(exactNumbers))
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return err
	}
	return refuse(Violation{
		Field:   pathIn(a.value, slices.Collect(semantic.JSONPointer.Tokens())),
		Reason:  ReasonType,
		Message: fmt.Sprintf("cannot be held as %v", semantic.GoType),
	})
}

// exactNumbers makes decoding refuse to round. It is never changed; being one
// value, what it learns about types is learnt once.
var exactNumbers = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *any) error {
		if dec.PeekKind() == '0' {
			*into = jsonv1.Number("")
		}
		return errors.ErrUnsupported // decode as usual, into what is there now
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *jsonv1.Number) error {
		if dec.PeekKind() == '"' {
			return errors.New("text is no number") // it would fit, a Number being a string
		}
		text, err := numberText(dec)
		if err == nil {
			*into = jsonv1.Number(text)
		}
		return err
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *float64) error {
		f, err := exactFloat(dec, 64)
		if err == nil {
			*into = f
		}
		return err
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *float32) error {
		f, err := exactFloat(dec, 32)
		if err == nil {
			*into = float32(f)
		}
		return err
	}),
)

// numberText reads a number; anything but a number is left to the default,
// which knows null and reports the rest.
func numberText(dec *jsontext.Decoder) (string, error) {
	if dec.PeekKind() != '0' {
		return "", errors.ErrUnsupported
	}
	token, err := dec.ReadToken()
	return token.String(), err
}

var errInexact = errors.New("number loses digits")

func exactFloat(dec *jsontext.Decoder, bits int) (float64, error) {
	text, err := numberText(dec)
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(text, bits)
	if err != nil || parseDecimal(strconv.FormatFloat(f, 'e', -1, bits)) != parseDecimal(text) {
		return 0, errInexact
	}
	return f, nil
}
