package demo

import (
	"strings"
	"testing"
	"time"

	agenttrace "github.com/onceward/onceward/examples/agent-trace"
	"github.com/onceward/onceward/fakeprovider"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	refundLine = `{"t_ms":300,"case":"c","why":"w","action":"A1","expect_effects":1,"provider_fault":"delay_3s","request":{"tenant":"acme","action_type":"payments.refund.create","arguments":{"charge_id":"ch_1","amount":1},"run":{"run_id":"r","step_id":"s","attempt":2,"tool_call_id":"t","agent":"a","tool_version":"v"},"retry_cause":"NETWORK_TIMEOUT","idempotency_key":"k","intent_id":"i"},"needs":"intent"}`
	noteLine   = `{"t_ms":400,"case":"c","action":"A2","expect_effects":1,"request":{"tenant":"acme","action_type":"notes.insert","arguments":{"subject":"s","body":"b"}}}`
)

func TestDecode(t *testing.T) {
	lines, err := Decode("t.jsonl", []byte(refundLine+"\n\n"+noteLine))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 {
		t.Fatalf("got %d lines", len(lines))
	}
	got := lines[0]
	if got.Number != 1 || got.At != 300*time.Millisecond || got.Action != "A1" || got.ExpectEffects != 1 || got.Needs != "intent" ||
		got.Fault != (fakeprovider.Fault{Kind: fakeprovider.Delay, Delay: 3 * time.Second}) ||
		got.Request.RetryCause != oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT ||
		got.Request.IdempotencyKey != "k" || got.Request.IntentID != "i" || string(got.Request.Arguments) != `{"charge_id":"ch_1","amount":1}` ||
		got.Request.Run.GetToolVersion() != "v" || got.Request.Run.GetAttempt() != 2 || got.target != (target{natural: fakeprovider.RefundOf("ch_1")}) {
		t.Errorf("got %+v", got)
	}
	if got := lines[1]; got.Number != 3 || got.target != (target{note: note{"s", "b"}, tenant: "acme"}) {
		t.Errorf("got %+v", got)
	}
}

// Every mistake is found, and its error leads to it.
func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		name, was, is, want string
	}{
		{"unknown field", `"case"`, `"kase"`, "kase: is unknown"},
		{"unknown field inside", `"step_id"`, `"stepid"`, "request.run.stepid: is unknown"},
		{"field twice", `"why":"w"`, `"why":"w","why":"x"`, "why: duplicate"},
		{"wrong type", `"t_ms":300`, `"t_ms":"300"`, "t_ms: cannot be a JSON string"},
		{"wrong type inside", `"attempt":2`, `"attempt":"2"`, "request.run.attempt: cannot be a JSON string"},
		{"no time", `"t_ms":300,`, ``, "t_ms: is required"},
		{"negative time", `"t_ms":300`, `"t_ms":-1`, "t_ms: -1 is not between"},
		{"no case", `"case":"c"`, `"case":""`, "case: is required"},
		{"no action", `"action":"A1",`, ``, "action: is required"},
		{"no expectation", `"expect_effects":1,`, ``, "expect_effects: is required"},
		{"no tenant", `"tenant":"acme",`, ``, "request.tenant: is required"},
		{"no arguments", `"arguments":{"charge_id":"ch_1","amount":1},`, ``, "request.arguments: is required"},
		{"other arguments", `"arguments":{`, `"arguments":[{`, "request.arguments"},
		{"no target", `"charge_id":"ch_1",`, ``, "request.arguments.charge_id: is required"},
		{"action type", `payments.refund.create`, `payments.payout.create`, "request.action_type: "},
		{"retry cause", `NETWORK_TIMEOUT`, `UNSPECIFIED`, "request.retry_cause: "},
		{"fault", `delay_3s`, `delay_forever`, "provider_fault: "},
		{"cut", `"needs":"intent"}`, ``, "unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(refundLine, test.was) {
				t.Fatalf("the line does not hold %s", test.was)
			}
			text := noteEarly + "\n" + strings.Replace(refundLine, test.was, test.is, 1)
			_, err := Decode("t.jsonl", []byte(text))
			if err == nil || !strings.HasPrefix(err.Error(), "t.jsonl:2: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want t.jsonl:2 and %s", err, test.want)
			}
		})
	}
}

var noteEarly = strings.Replace(noteLine, `"t_ms":400`, `"t_ms":0`, 1)

// Lines must agree with each other, or effects could not be judged.
func TestDecodeRefusesContradictions(t *testing.T) {
	change := func(was, is string) string { return strings.Replace(noteLine, was, is, 1) }
	for name, test := range map[string]struct{ second, want string }{
		"earlier":           {change(`400`, `399`), "t_ms: "},
		"other expectation": {change(`"expect_effects":1`, `"expect_effects":2`), "expect_effects: line 1 says 1"},
		"other target":      {change(`"subject":"s"`, `"subject":"z"`), "request.arguments: line 1 is about another target"},
		"same target":       {change(`A2`, `A3`), "action: line 1 has the same target"},
		"fault of no call":  {change(`"request"`, `"provider_fault":"delay_3s","request"`), "provider_fault: "},
	} {
		_, err := Decode("t.jsonl", []byte(noteLine+"\n"+test.second))
		if err == nil || !strings.Contains(err.Error(), "t.jsonl:2: "+test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	other := change(`A2`, `A3`)
	other = strings.Replace(other, `"acme"`, `"globex"`, 1)
	if _, err := Decode("t.jsonl", []byte(noteLine+"\n"+other)); err != nil {
		t.Errorf("the notes of two tenants are two targets: %v", err)
	}
	if _, err := Decode("t.jsonl", []byte("\n\n")); err == nil {
		t.Error("an empty trace was accepted")
	}
}

func TestSampleDecodes(t *testing.T) {
	lines, err := Decode(agenttrace.Name, agenttrace.Trace())
	if err != nil {
		t.Fatal(err)
	}
	if played, waiting := playable(lines); len(played) != len(lines) || waiting != 0 {
		t.Errorf("%d lines: %d played, %d waiting", len(lines), len(played), waiting)
	}
	lines[3].Needs = "something new"
	if played, waiting := playable(lines); len(played) != len(lines)-1 || waiting != 1 {
		t.Errorf("%d lines, one of which waits: %d played, %d waiting", len(lines), len(played), waiting)
	}
}
