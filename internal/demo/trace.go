package demo

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/fakeprovider"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Line is one request of a trace.
type Line struct {
	Number int           // in the file, from 1
	At     time.Duration // since the trace's start
	Case   string        // group that a reader sees
	Why    string
	// Action is the truth that nobody sends: lines with the same Action are one
	// logical action, of which the target must hold ExpectEffects in the end.
	Action        string
	ExpectEffects int
	// Fault is what the provider does with the first call that the line causes.
	Fault fakeprovider.Fault
	// Needs names what the line waits for; it is not played while it is set.
	Needs   string
	Request Request

	target target
}

// Request is what an agent sends.
type Request struct {
	// Tenant says whose credential to use.
	Tenant     string
	ActionType string
	Arguments  []byte // a JSON object
	Run        *oncewardv1.RunContext
	// IdempotencyKey, IntentID and RetryCause are empty where the agent gives
	// none.
	IdempotencyKey, IntentID string
	RetryCause               oncewardv1.RetryCause
}

// maxLength bounds a trace's time, so that a slip in a time does not look like
// a demo that hangs.
const maxLength = 10 * time.Minute

// lineJSON is a line as it is written.
type lineJSON struct {
	TMs           *int64      `json:"t_ms"`
	Case          string      `json:"case"`
	Why           string      `json:"why"`
	Action        string      `json:"action"`
	ExpectEffects *int        `json:"expect_effects"`
	ProviderFault string      `json:"provider_fault"`
	Needs         string      `json:"needs"`
	Request       requestJSON `json:"request"`
}

type requestJSON struct {
	Tenant         string         `json:"tenant"`
	ActionType     string         `json:"action_type"`
	Arguments      jsontext.Value `json:"arguments"`
	Run            runJSON        `json:"run"`
	IdempotencyKey string         `json:"idempotency_key"`
	IntentID       string         `json:"intent_id"`
	RetryCause     string         `json:"retry_cause"`
}

type runJSON struct {
	RunID       string `json:"run_id"`
	StepID      string `json:"step_id"`
	Attempt     int32  `json:"attempt"`
	ToolCallID  string `json:"tool_call_id"`
	ToolVersion string `json:"tool_version"`
	Agent       string `json:"agent"`
}

// fieldError is a mistake in one field of a line.
type fieldError struct {
	field, message string
}

func (e *fieldError) Error() string { return e.field + ": " + e.message }

func wrong(field, format string, args ...any) error {
	return &fieldError{field, fmt.Sprintf(format, args...)}
}

// Decode reads a trace strictly: a field that is unknown, missing, given twice
// or out of its range is an error that names file, line and field. name is the
// file's name for those errors. Empty lines are skipped.
func Decode(name string, data []byte) ([]Line, error) {
	var lines []Line
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		line, err := decodeLine(text)
		if err == nil {
			err = line.fits(lines)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		line.Number = number
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: holds no requests", name)
	}
	return lines, nil
}

func decodeLine(text []byte) (Line, error) {
	var in lineJSON
	if err := json.Unmarshal(text, &in, json.RejectUnknownMembers(true)); err != nil {
		return Line{}, syntaxError(err)
	}
	if in.TMs == nil {
		return Line{}, wrong("t_ms", "is required")
	}
	if *in.TMs < 0 || *in.TMs > maxLength.Milliseconds() {
		return Line{}, wrong("t_ms", "%d is not between 0 and %d", *in.TMs, maxLength.Milliseconds())
	}
	for field, value := range map[string]string{"case": in.Case, "action": in.Action, "request.tenant": in.Request.Tenant} {
		if value == "" {
			return Line{}, wrong(field, "is required")
		}
	}
	if in.ExpectEffects == nil || *in.ExpectEffects < 0 {
		return Line{}, wrong("expect_effects", "is required, and 0 or more")
	}
	request, err := in.Request.decode()
	if err != nil {
		return Line{}, err
	}
	line := Line{
		At: time.Duration(*in.TMs) * time.Millisecond, Case: in.Case, Why: in.Why, Action: in.Action,
		ExpectEffects: *in.ExpectEffects, Needs: in.Needs, Request: request,
	}
	if line.target, err = targetOf(request.ActionType, request.Arguments); err != nil {
		return Line{}, err
	}
	if line.target.local() { // one provider serves all tenants, a ledger keeps them apart
		line.target.tenant = request.Tenant
	}
	line.Fault, err = decodeFault(in.ProviderFault, line.target)
	return line, err
}

func (r requestJSON) decode() (Request, error) {
	request := Request{
		Tenant: r.Tenant, ActionType: r.ActionType, Arguments: r.Arguments,
		IdempotencyKey: r.IdempotencyKey, IntentID: r.IntentID,
		Run: &oncewardv1.RunContext{
			RunId: r.Run.RunID, StepId: r.Run.StepID, Attempt: r.Run.Attempt,
			ToolCallId: r.Run.ToolCallID, ToolVersion: r.Run.ToolVersion, Agent: r.Run.Agent,
		},
	}
	if r.RetryCause == "" {
		return request, nil
	}
	cause, ok := oncewardv1.RetryCause_value["RETRY_CAUSE_"+r.RetryCause]
	if !ok || cause == 0 {
		return Request{}, wrong("request.retry_cause", "%q is no cause of a retry", r.RetryCause)
	}
	request.RetryCause = oncewardv1.RetryCause(cause)
	return request, nil
}

func decodeFault(name string, t target) (fakeprovider.Fault, error) {
	if name == "" {
		name = string(fakeprovider.None)
	}
	fault, err := fakeprovider.ParseFault(name)
	switch {
	case err != nil:
		return fault, wrong("provider_fault", "%v", err)
	case fault.Kind != fakeprovider.None && t.local():
		return fault, wrong("provider_fault", "%s calls no provider", noteInsert)
	}
	return fault, nil
}

// fits checks a line against those before it.
func (l Line) fits(before []Line) error {
	if n := len(before); n > 0 && l.At < before[n-1].At {
		return wrong("t_ms", "is earlier than the line before")
	}
	for _, other := range before {
		switch {
		case other.Action == l.Action && other.ExpectEffects != l.ExpectEffects:
			return wrong("expect_effects", "line %d says %d for action %s", other.Number, other.ExpectEffects, l.Action)
		case other.Action == l.Action && other.target != l.target:
			return wrong("request.arguments", "line %d is about another target, but has the same action %s", other.Number, l.Action)
		case other.Action != l.Action && other.target == l.target:
			return wrong("action", "line %d has the same target, but is action %s: their effects could not be told apart", other.Number, other.Action)
		}
	}
	return nil
}

// syntaxError names the field in an error of the JSON decoder.
func syntaxError(err error) error {
	var pointer jsontext.Pointer
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	message := err.Error()
	switch {
	case errors.As(err, &semantic):
		pointer = semantic.JSONPointer
		switch {
		case errors.Is(err, json.ErrUnknownName):
			message = "is unknown"
		case semantic.Err != nil:
			message = semantic.Err.Error()
		default:
			message = fmt.Sprintf("cannot be a JSON %s", semantic.JSONKind)
		}
	case errors.As(err, &syntactic):
		pointer = syntactic.JSONPointer
		message = fmt.Sprintf("%v (byte %d)", syntactic.Err, syntactic.ByteOffset)
	}
	var path []string
	for token := range pointer.Tokens() {
		path = append(path, token)
	}
	if len(path) == 0 {
		return errors.New(message)
	}
	return wrong(strings.Join(path, "."), "%s", message)
}
