package grpcaction

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func receipt(reference, text string) *oncewardv1.Receipt {
	return &oncewardv1.Receipt{ProviderReference: reference, Json: text}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, maxReceiptDepth) + `{}` + strings.Repeat(`}`, maxReceiptDepth)
	long := `{"a":"` + strings.Repeat("x", maxReceiptBytes) + `"}`
	for name, tt := range map[string]struct {
		kind      oncewardv1.OutcomeKind
		receipt   *oncewardv1.Receipt
		retry     *durationpb.Duration
		want      actions.Kind
		reference string
		json      string
		wait      time.Duration
	}{
		"applied":                             {kind: 2, receipt: receipt("gr_1", goodReceipt), want: actions.Applied, reference: "gr_1", json: goodReceipt},
		"applied, digits kept":                {kind: 2, receipt: receipt("1", `{ "n": 123456789012345678901234567890, "f": 1.0, "e": 1e2 }`), want: actions.Applied, reference: "1", json: `{"n":123456789012345678901234567890,"f":1.0,"e":1e2}`},
		"applied with NUL":                    {kind: 2, receipt: receipt("gr\x001", `{"a":"x\u0000y","\u0000":1}`), want: actions.Applied, reference: "gr\uFFFD1", json: "{\"a\":\"x\uFFFDy\",\"\uFFFD\":1}"},
		"applied with half a surrogate":       {kind: 2, receipt: receipt("1", `{"a":"\ud83d"}`), want: actions.Applied, reference: "1", json: "{\"a\":\"\uFFFD\"}"},
		"applied at the limit":                {kind: 2, receipt: receipt(strings.Repeat("r", 255), `{}`), want: actions.Applied, reference: strings.Repeat("r", 255), json: `{}`},
		"applied without a receipt":           {kind: 2, want: actions.AppliedNoReceipt},
		"applied without a reference":         {kind: 2, receipt: receipt("", goodReceipt), want: actions.AppliedNoReceipt},
		"applied with an empty reference":     {kind: 2, receipt: receipt(" ", goodReceipt), want: actions.AppliedNoReceipt},
		"applied with a reference too long":   {kind: 2, receipt: receipt(strings.Repeat("r", 256), goodReceipt), want: actions.AppliedNoReceipt},
		"applied with a reference that grows": {kind: 2, receipt: receipt(strings.Repeat("\x00", 86), goodReceipt), want: actions.AppliedNoReceipt},
		"applied without json":                {kind: 2, receipt: receipt("gr_1", ""), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied with a list":                 {kind: 2, receipt: receipt("gr_1", `[]`), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied with cut json":               {kind: 2, receipt: receipt("gr_1", `{"a":1`), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied with two objects":            {kind: 2, receipt: receipt("gr_1", `{} {}`), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied with rubbish behind":         {kind: 2, receipt: receipt("gr_1", `{} x`), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied with a member twice":         {kind: 2, receipt: receipt("gr_1", `{"a":1,"a":2}`), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied, nested too deep":            {kind: 2, receipt: receipt("gr_1", deep), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied, too long":                   {kind: 2, receipt: receipt("gr_1", long), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"applied, no receipt":                 {kind: 3, receipt: receipt("gr_1", ""), want: actions.AppliedNoReceipt, reference: "gr_1"},
		"accepted":                            {kind: 4, receipt: receipt("job_1", ""), retry: durationpb.New(time.Minute), want: actions.Accepted, reference: "job_1", wait: time.Minute},
		"in progress":                         {kind: 5, retry: durationpb.New(time.Second), want: actions.InProgress, wait: time.Second},
		"maybe ours":                          {kind: 6, want: actions.MaybeOurs},
		"key mismatch":                        {kind: 7, want: actions.KeyMismatch},
		"rejected":                            {kind: 8, want: actions.Rejected},
		"rejected with a receipt":             {kind: 8, receipt: receipt("gr_1", ""), want: actions.Ambiguous},
		"rejected with a receipt's json":      {kind: 8, receipt: receipt("", `{}`), want: actions.Ambiguous},
		"not applied":                         {kind: 9, retry: durationpb.New(time.Hour), want: actions.NotApplied, wait: time.Hour},
		"not applied with a receipt":          {kind: 9, receipt: receipt("gr_1", `{}`), want: actions.Ambiguous},
		"rate limited":                        {kind: 10, retry: durationpb.New(1000 * time.Hour), want: actions.RateLimited, wait: maxRetryAfter},
		"rate limited, negative wait":         {kind: 10, retry: durationpb.New(-time.Hour), want: actions.RateLimited},
		"rate limited, wait that is none":     {kind: 10, retry: &durationpb.Duration{Seconds: 1, Nanos: -1}, want: actions.RateLimited},
		"rate limited with a receipt":         {kind: 10, receipt: receipt("gr_1", `{}`), want: actions.Ambiguous},
		"ambiguous":                           {kind: 1, want: actions.Ambiguous},
		"ambiguous with a receipt":            {kind: 1, receipt: receipt("gr_1", `{}`), want: actions.Ambiguous},
		"unspecified":                         {kind: 0, receipt: receipt("gr_1", `{}`), want: actions.Ambiguous},
		"a kind of a newer contract":          {kind: 11, want: actions.Ambiguous},
		"a negative kind":                     {kind: -1, want: actions.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outcomeOf(&oncewardv1.Outcome{Kind: tt.kind, Receipt: tt.receipt, RetryAfter: tt.retry})
			if got.Kind != tt.want || got.Receipt.Reference != tt.reference || string(got.Receipt.JSON) != tt.json || got.RetryAfter != tt.wait {
				t.Errorf("got %s wait %s, want %s %q %s wait %s", shownOutcome(got), got.RetryAfter, tt.want, tt.reference, tt.json, tt.wait)
			}
			if got.Kind != actions.Applied && (got.Failure.Code == "" || got.Failure.Message == "" || got.Failure.Evidence == "") {
				t.Errorf("it does not say why: %+v", got.Failure)
			}
		})
	}
	if got := outcomeOf(nil); got.Kind != actions.Ambiguous {
		t.Errorf("no outcome is %s, want ambiguous", got.Kind)
	}
}

// TestFailures: texts are cleaned, and only a refusal is correctable.
func TestFailures(t *testing.T) {
	t.Parallel()
	given := &oncewardv1.Failure{
		Code: "Unknown-Member!", Message: "No such\nmember.\u202e", Correctable: true,
		Violations: []*oncewardv1.FieldViolation{{Field: "arguments.member_id", Reason: "no such", Message: "is not\ta member"}},
	}
	got := outcomeOf(&oncewardv1.Outcome{Kind: oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED, Failure: given, Evidence: "HTTP 422\r\nx"}).Failure
	want := actions.Failure{
		Code: "unknown_member", Message: "No such member.", Correctable: true, Evidence: "adapter: REJECTED HTTP 422 x",
		Violations: []actions.Violation{{Field: "arguments.member_id", Reason: "NO_SUCH", Message: "is not a member"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	limited := outcomeOf(&oncewardv1.Outcome{Kind: oncewardv1.OutcomeKind_OUTCOME_KIND_RATE_LIMITED, Failure: given}).Failure
	if limited.Correctable || limited.Violations != nil {
		t.Errorf("a rate limit cannot be corrected: %+v", limited)
	}
	many := &oncewardv1.Failure{Message: strings.Repeat("ä", 4000)}
	for range 100 {
		many.Violations = append(many.Violations, &oncewardv1.FieldViolation{Field: "a"})
	}
	got = outcomeOf(&oncewardv1.Outcome{Kind: oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED, Failure: many}).Failure
	if len(got.Violations) != maxViolations || len(got.Message) > maxTextBytes || !utf8.ValidString(got.Message) {
		t.Errorf("%d violations, message of %d bytes", len(got.Violations), len(got.Message))
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		finding   *oncewardv1.Finding
		want      actions.FindingKind
		reference string
		several   []string
	}{
		"none at all":                  {nil, actions.Inconclusive, "", nil},
		"unspecified":                  {&oncewardv1.Finding{Receipt: receipt("gr_1", `{}`)}, actions.Inconclusive, "", nil},
		"inconclusive":                 {&oncewardv1.Finding{Kind: 1}, actions.Inconclusive, "", nil},
		"found":                        {&oncewardv1.Finding{Kind: 2, Receipt: receipt("gr_1", goodReceipt)}, actions.Found, "gr_1", nil},
		"found without a receipt":      {&oncewardv1.Finding{Kind: 2}, actions.Inconclusive, "", nil},
		"found with a broken receipt":  {&oncewardv1.Finding{Kind: 2, Receipt: receipt("gr_1", `{`)}, actions.Inconclusive, "", nil},
		"found one and others":         {&oncewardv1.Finding{Kind: 2, Receipt: receipt("gr_1", `{}`), References: []string{"gr_2"}}, actions.Inconclusive, "", nil},
		"absent":                       {&oncewardv1.Finding{Kind: 3}, actions.Absent, "", nil},
		"absent with a receipt":        {&oncewardv1.Finding{Kind: 3, Receipt: receipt("gr_1", `{}`)}, actions.Inconclusive, "", nil},
		"absent with references":       {&oncewardv1.Finding{Kind: 3, References: []string{"gr_1"}}, actions.Inconclusive, "", nil},
		"several":                      {&oncewardv1.Finding{Kind: 4, References: []string{"gr_1", "", "gr_2"}}, actions.Several, "", []string{"gr_1", "gr_2"}},
		"several, not said which":      {&oncewardv1.Finding{Kind: 4}, actions.Several, "", nil},
		"foreign":                      {&oncewardv1.Finding{Kind: 5}, actions.Foreign, "", nil},
		"foreign with a receipt of us": {&oncewardv1.Finding{Kind: 5, Receipt: receipt("gr_1", `{}`)}, actions.Inconclusive, "", nil},
		"ended":                        {&oncewardv1.Finding{Kind: 6, Failure: &oncewardv1.Failure{Code: "declined"}}, actions.Ended, "", nil},
		"ended with a receipt":         {&oncewardv1.Finding{Kind: 6, Receipt: receipt("gr_1", `{}`)}, actions.Inconclusive, "", nil},
		"a kind of a newer contract":   {&oncewardv1.Finding{Kind: 7}, actions.Inconclusive, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := findingOf(tt.finding)
			if got.Kind != tt.want || got.Receipt.Reference != tt.reference || !reflect.DeepEqual(got.References, tt.several) {
				t.Errorf("got %+v, want %s %q %q", got, tt.want, tt.reference, tt.several)
			}
		})
	}
}

func TestFindingThatExplains(t *testing.T) {
	t.Parallel()
	got := findingOf(&oncewardv1.Finding{
		Kind: oncewardv1.FindingKind_FINDING_KIND_ENDED, Detail: "job\n7 failed", RetryAfter: durationpb.New(time.Minute),
		Failure: &oncewardv1.Failure{Code: "Declined", Message: "Declined by the bank.", Correctable: true},
	})
	want := actions.Finding{Kind: actions.Ended, Detail: "job 7 failed", After: time.Minute, Failure: actions.Failure{
		Code: "declined", Message: "Declined by the bank.", Correctable: true, Evidence: "job 7 failed",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTextThatIsNoUTF8: what some libraries send and protobuf refuses to read
// does not cost a success its receipt.
func TestTextThatIsNoUTF8(t *testing.T) {
	t.Parallel()
	good := marshal(t, answerOf(&oncewardv1.Outcome{
		Kind:    oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED,
		Receipt: receipt("gr_1", `{"name":"J~rg"}`), RetryAfter: durationpb.New(time.Second),
	}))
	var answer oncewardv1.ExecuteResponse
	if err := decode([]byte(strings.Replace(string(good), "~", "\xf6", 1)), &answer); err != nil {
		t.Fatal(err)
	}
	if got := outcomeOf(answer.GetOutcome()); got.Kind != actions.Applied || string(got.Receipt.JSON) != "{\"name\":\"J\uFFFDrg\"}" {
		t.Errorf("got %s", shownOutcome(got))
	}
	for _, rubbish := range []string{"<html>", "\xff", "\x0a\x05\x08"} {
		if err := decode([]byte(rubbish), &oncewardv1.ExecuteResponse{}); err == nil {
			t.Errorf("%q was read as an answer", rubbish)
		}
	}
}

// FuzzAnswer: whatever comes, a success has a receipt that is one JSON object,
// and nothing panics.
func FuzzAnswer(f *testing.F) {
	f.Add(marshal(f, applied()))
	f.Add(marshal(f, answerOf(&oncewardv1.Outcome{Kind: oncewardv1.OutcomeKind_OUTCOME_KIND_REJECTED, Failure: &oncewardv1.Failure{Code: "x", Message: "\u2028"}})))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var answer oncewardv1.ExecuteResponse
		if decode(data, &answer) != nil {
			return
		}
		o := outcomeOf(answer.GetOutcome())
		var object map[string]json.RawMessage
		isReceipt := o.Receipt.Reference != "" && json.Unmarshal(o.Receipt.JSON, &object) == nil && object != nil && utf8.Valid(o.Receipt.JSON)
		if (o.Kind == actions.Applied) != isReceipt {
			t.Errorf("got %s", shownOutcome(o))
		}
		if o.RetryAfter < 0 || !utf8.ValidString(o.Failure.Message+o.Failure.Evidence+o.Receipt.Reference) {
			t.Errorf("got %s", shownOutcome(o))
		}
	})
}
