package auditchain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// form is the version of the form in which an event is hashed.
const form = 1

// Event is a line of the audit record. Hashes are in hex. What is nil was not
// there: that is another thing than an empty text.
type Event struct {
	Tenant      string  `json:"tenant_id"`
	OperationID string  `json:"operation_id"`
	Sequence    int64   `json:"sequence"`
	At          string  `json:"at"` // in UTC, with six digits of a second
	Event       string  `json:"event"`
	From        string  `json:"from_status"`
	To          string  `json:"to_status"`
	Attempt     int64   `json:"attempt"`
	Epoch       int64   `json:"epoch"`
	ArgsHash    string  `json:"args_hash"`
	Actor       string  `json:"actor"`
	Detail      string  `json:"detail"`
	Outcome     *string `json:"outcome"`
	Key         *string `json:"idempotency_key"`
	Context     *string `json:"context"`
	Reference   *string `json:"reference"`
	Chain       string  `json:"chain"`

	// Last is in exports: whether there were no more events of the operation.
	Last *bool `json:"last"`
	// Head is with first events from a ledger: the chain that it keeps of the
	// operation, empty where the operation is gone.
	Head *string `json:"head"`
}

// Parse reads a line. A column that it does not know is an error, since it could
// not be a part of the chain. So is whatever another reader might take for a column
// that is here: a second one of the same name or of the same name but for its case,
// and anything after the object.
func Parse(line []byte) (Event, error) {
	var e Event
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&e)
	if err == nil {
		err = plain(line)
	}
	if err != nil {
		return Event{}, fmt.Errorf("auditchain: not a line of the audit record: %w", err)
	}
	return e, nil
}

// plain reports what of a line is not one object with each name once. All values of
// an event are single tokens.
func plain(line []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return errors.New("it is no object")
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if seen[name] || name != strings.ToLower(name) {
			return fmt.Errorf("column %q is there twice, or is not written as it is", name)
		}
		seen[name] = true
		if _, err := decoder.Token(); err != nil { // its value
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the end of the object
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// Link returns the chain of an event that follows on another one, whose chain is
// previous in hex; empty for the first event of an operation. It fails where the
// time is none.
func (e *Event) Link(previous string) (string, error) {
	at, err := time.Parse("2006-01-02T15:04:05.000000Z", e.At)
	if err != nil {
		return "", fmt.Errorf("auditchain: time of event %s/%d: %w", e.OperationID, e.Sequence, err)
	}
	var b []byte
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ':') }
	text := func(s string) { number(int64(len(s))); b = append(b, s...) }
	maybe := func(s *string) {
		if s == nil {
			b = append(b, ':')
			return
		}
		text(*s)
	}
	number(form)
	text(previous)
	text(e.Tenant)
	text(e.OperationID)
	number(e.Sequence)
	number(at.UnixMicro())
	text(e.Event)
	text(e.From)
	text(e.To)
	number(e.Attempt)
	number(e.Epoch)
	text(e.ArgsHash)
	text(e.Actor)
	text(e.Detail)
	maybe(e.Outcome)
	maybe(e.Key)
	maybe(e.Context)
	maybe(e.Reference)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
