package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions"
)

// openStandard reads the headers of Standard Webhooks. What is signed is id,
// timestamp and body with full stops between.
func openStandard(m actions.Message) (envelope, error) {
	prefix := "webhook-"
	if len(m.Values(prefix+"signature")) == 0 {
		prefix = "svix-"
	}
	var e envelope
	id, err := one(m, prefix+"id")
	if err != nil {
		return e, err
	}
	if e.timestamp, err = one(m, prefix+"timestamp"); err != nil {
		return e, err
	}
	list, err := one(m, prefix+"signature")
	if err != nil {
		return e, err
	}
	// The full stops must be where the sender had them.
	if strings.Contains(id, ".") || strings.Contains(e.timestamp, ".") {
		return e, errors.New("a full stop in the id or the timestamp")
	}
	for signature := range strings.FieldsSeq(list) {
		if text, ok := strings.CutPrefix(signature, "v1,"); ok {
			e.add(decode(Base64, text))
		}
	}
	e.content = fmt.Appendf(nil, "%s.%s.%s", id, e.timestamp, m.Body)
	return e, e.check()
}

// openStripe reads Stripe-Signature: t once, v1 once for each secret that is
// valid, and schemes that do not count. What is signed is timestamp and body
// with a full stop between.
func openStripe(m actions.Message) (envelope, error) {
	var e envelope
	header, err := one(m, "Stripe-Signature")
	if err != nil {
		return e, err
	}
	for pair := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		switch name {
		case "t":
			if e.timestamp != "" {
				return e, errors.New("two timestamps")
			}
			e.timestamp = value
		case "v1":
			e.add(decode(Hex, value))
		}
	}
	if e.timestamp == "" {
		return e, errors.New("no timestamp")
	}
	e.content = fmt.Appendf(nil, "%s.%s", e.timestamp, m.Body)
	return e, e.check()
}

// openHMAC reads a message by the rules. A header that is repeated holds several
// signatures.
func (v *Verifier) openHMAC(m actions.Message) (envelope, error) {
	var e envelope
	for _, value := range m.Values(v.rules.Header) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(value), v.rules.Prefix); ok {
			e.add(decode(v.rules.Encoding, text))
		}
	}
	if err := e.check(); err != nil {
		return e, err
	}
	if v.rules.TimestampHeader != "" {
		var err error
		if e.timestamp, err = one(m, v.rules.TimestampHeader); err != nil {
			return e, err
		}
	}
	for _, part := range v.rules.Content {
		piece, err := v.piece(part, m, e.timestamp)
		if err != nil {
			return e, err
		}
		e.content = append(e.content, piece...)
	}
	return e, nil
}

// piece is a part of what is signed.
func (v *Verifier) piece(part Part, m actions.Message, timestamp string) ([]byte, error) {
	switch part.Kind {
	case URL:
		return []byte(m.URL), nil
	case Method:
		return []byte(m.Method), nil
	case Timestamp:
		return []byte(timestamp), nil
	case Header:
		value, err := one(m, part.Text)
		return []byte(value), err
	case Text:
		return []byte(part.Text), nil
	case Form:
		return sortedForm(m.Body)
	default:
		return m.Body, nil
	}
}

// sortedForm is each name and value of a form, sorted, equal pairs once.
func sortedForm(body []byte) ([]byte, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("the body is no form")
	}
	var content []byte
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			content = append(append(content, name...), value...)
		}
	}
	return content, nil
}

// one is the value of a header that must be there once: of two, the one that
// was signed could be another one than the one that is read.
func one(m actions.Message, header string) (string, error) {
	values := m.Values(header)
	if len(values) != 1 || values[0] == "" {
		return "", fmt.Errorf("header %s is there %d times, want once", header, len(values))
	}
	return values[0], nil
}

// add takes a signature that could be read.
func (e *envelope) add(signature []byte) {
	if signature != nil && len(e.signatures) < maxSignatures {
		e.signatures = append(e.signatures, signature)
	}
}

func (e *envelope) check() error {
	if len(e.signatures) == 0 {
		return errors.New("no signature that could be read")
	}
	return nil
}
