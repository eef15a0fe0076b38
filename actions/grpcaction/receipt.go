package grpcaction

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Limits of evidence.
const (
	maxReferenceBytes = 255
	maxReferences     = 100
	maxReceiptBytes   = 64 << 10
	maxReceiptDepth   = actions.MaxDepth
)

// receiptOf reads a receipt. Beside an error it still has the reference where
// there is a usable one.
func receiptOf(r *oncewardv1.Receipt) (actions.Receipt, error) {
	receipt := actions.Receipt{Reference: reference(r.GetProviderReference())}
	if receipt.Reference == "" {
		return receipt, fmt.Errorf("the receipt has no provider_reference of 1 to %d bytes", maxReferenceBytes)
	}
	object, err := cleanObject(r.GetJson())
	if err != nil {
		return receipt, fmt.Errorf("the receipt's json %w", err)
	}
	receipt.JSON = object
	return receipt, nil
}

// reference returns a provider's id as it can be stored, or "" where it is none.
func reference(s string) string {
	if len(s) > maxReferenceBytes || strings.TrimSpace(s) == "" {
		return ""
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxReferenceBytes { // U+FFFD is longer than what it stands for
		return ""
	}
	return s
}

// cleanObject returns one JSON object without white space. Numbers keep their
// digits, members their order. Text that databases refuse (NUL, halves of
// surrogate pairs) becomes U+FFFD: it must not cost a success its receipt.
func cleanObject(text string) (json.RawMessage, error) {
	if len(text) > maxReceiptBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxReceiptBytes)
	}
	var out bytes.Buffer
	dec := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowInvalidUTF8(true))
	enc := jsontext.NewEncoder(&out, jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return nil, errors.New("is not an object")
	}
	for {
		tok, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && dec.StackDepth() > maxReceiptDepth {
			return nil, fmt.Errorf("is nested deeper than %d levels", maxReceiptDepth)
		}
		if err == nil && tok.Kind() == '"' {
			tok = jsontext.String(strings.ReplaceAll(tok.String(), "\x00", "\uFFFD"))
		}
		if err == nil {
			err = enc.WriteToken(tok)
		}
		if err != nil { // its words may repeat the text
			return nil, fmt.Errorf("is not valid JSON (about byte %d)", dec.InputOffset())
		}
		if dec.StackDepth() == 0 && dec.PeekKind() != 0 {
			return nil, errors.New("goes on after its object")
		}
	}
	clean := bytes.TrimSpace(out.Bytes())
	if len(clean) > maxReceiptBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxReceiptBytes)
	}
	return clean, nil
}
