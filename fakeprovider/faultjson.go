package fakeprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// faultRequest is the body of POST /_fake/faults.
type faultRequest struct {
	Match  *match      `json:"match"`
	Faults []faultJSON `json:"faults"`
}

func (in faultRequest) faults(w *world) ([]Fault, error) {
	if len(in.Faults) == 0 {
		return nil, errors.New("faults is empty")
	}
	out := make([]Fault, 0, len(in.Faults))
	for i, fj := range in.Faults {
		f, err := fj.fault(w)
		if err == nil {
			err = f.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("faults[%d]: %w", i, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// match chooses requests; what is empty matches all.
type match struct {
	Method       string `json:"method"` // empty: any write
	Path         string `json:"path"`   // prefix
	BodyContains string `json:"body_contains"`
	OperationID  string `json:"operation_id"` // anywhere in body or target
	NaturalKey   string `json:"natural_key"`
	Key          string `json:"key"`
}

func (m match) accepts(a arrival) bool {
	if m.Method == "" && !a.isWrite() || m.Method != "" && m.Method != a.r.Method {
		return false
	}
	return strings.HasPrefix(a.r.URL.Path, m.Path) &&
		bytes.Contains(a.body, []byte(m.BodyContains)) &&
		(m.OperationID == "" || bytes.Contains(a.body, []byte(m.OperationID)) || strings.Contains(a.r.URL.RequestURI(), m.OperationID)) &&
		(m.NaturalKey == "" || a.naturalKey == m.NaturalKey) &&
		(m.Key == "" || a.key == m.Key)
}

// faultJSON is a fault in the control API: a name that [ParseFault] reads, or
// an object whose kind is such a name. Durations are texts such as "3s".
type faultJSON struct {
	Kind            string   `json:"kind"`
	Status          int      `json:"status"`
	Apply           bool     `json:"apply"`
	InExecution     bool     `json:"in_execution"`
	Location        string   `json:"location"`
	SettleAfter     duration `json:"settle_after"`
	Size            int      `json:"size"`
	Field           string   `json:"field"`
	Answer          string   `json:"answer"`
	RetryAfter      duration `json:"retry_after"`
	RetryAfterText  string   `json:"retry_after_text"`
	Reset           bool     `json:"reset"`
	Delay           duration `json:"delay"`
	HoldBefore      string   `json:"hold_before"` // name of a gate
	HoldAfter       string   `json:"hold_after"`  // name of a gate
	LookupLag       duration `json:"lookup_lag"`
	DuplicateLookup bool     `json:"duplicate_lookup"`
	Times           int      `json:"times"`
}

// UnmarshalJSON reads a name or an object.
func (fj *faultJSON) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &fj.Kind)
	}
	type plain faultJSON // without this method
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields() // the outer decoder's strictness ends at this method
	return dec.Decode((*plain)(fj))
}

func (fj faultJSON) fault(w *world) (Fault, error) {
	f := Fault{}
	if fj.Kind != "" {
		named, err := ParseFault(fj.Kind)
		if err != nil {
			return Fault{}, err
		}
		f = named
	}
	override(&f.Status, fj.Status)
	override(&f.Apply, fj.Apply)
	override(&f.SettleAfter, time.Duration(fj.SettleAfter))
	override(&f.RetryAfter, time.Duration(fj.RetryAfter))
	override(&f.Delay, time.Duration(fj.Delay))
	override(&f.LookupLag, time.Duration(fj.LookupLag))
	override(&f.DuplicateLookup, fj.DuplicateLookup)
	override(&f.Answer, fj.Answer)
	f.InExecution, f.Location, f.Size, f.Field = fj.InExecution, fj.Location, fj.Size, fj.Field
	f.RetryAfterText, f.Reset, f.Times = fj.RetryAfterText, fj.Reset, fj.Times
	if fj.HoldBefore != "" {
		f.HoldBefore = w.gate(fj.HoldBefore)
	}
	if fj.HoldAfter != "" {
		f.HoldAfter = w.gate(fj.HoldAfter)
	}
	return f, nil
}

// override lets a field that was given win over what the name implies.
func override[T comparable](field *T, given T) {
	var zero T
	if given != zero {
		*field = given
	}
}

// duration is a time.Duration as text.
type duration time.Duration

// UnmarshalText reads what time.ParseDuration reads.
func (d *duration) UnmarshalText(b []byte) error {
	parsed, err := time.ParseDuration(string(b))
	*d = duration(parsed)
	return err
}
