package laws

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// badRequest is a request that must be refused.
type badRequest struct {
	name   string
	change func(*oncewardv1.RequestActionRequest)
	code   codes.Code
	reason string
	field  string // in BadRequest; empty: none
	why    string // reason of that violation; empty: any
}

func badRequests() []badRequest {
	const bad = codes.InvalidArgument
	json := func(text string) func(*oncewardv1.RequestActionRequest) {
		return func(r *oncewardv1.RequestActionRequest) {
			r.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: text}
		}
	}
	fields := func(fields map[string]*structpb.Value) func(*oncewardv1.RequestActionRequest) {
		return func(r *oncewardv1.RequestActionRequest) {
			all := map[string]*structpb.Value{"charge_id": structpb.NewStringValue("ch_1"), "amount": structpb.NewNumberValue(5), "currency": structpb.NewStringValue("usd")}
			for name, v := range fields {
				all[name] = v
			}
			r.ArgumentsForm = &oncewardv1.RequestActionRequest_Arguments{Arguments: &structpb.Struct{Fields: all}}
		}
	}
	key := func(k string) func(*oncewardv1.RequestActionRequest) {
		return func(r *oncewardv1.RequestActionRequest) { r.IdempotencyKey = k }
	}
	run := func(change func(*oncewardv1.RunContext)) func(*oncewardv1.RequestActionRequest) {
		return func(r *oncewardv1.RequestActionRequest) { change(r.Run) }
	}
	held := func(d *durationpb.Duration) func(*oncewardv1.RequestActionRequest) {
		return func(r *oncewardv1.RequestActionRequest) { r.Wait = d }
	}
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	return []badRequest{
		{"no action type", func(r *oncewardv1.RequestActionRequest) { r.ActionType = "" }, codes.NotFound, "UNKNOWN_ACTION_TYPE", "", ""},
		{"unknown action type", func(r *oncewardv1.RequestActionRequest) { r.ActionType = "payments.refund.delete" }, codes.NotFound, "UNKNOWN_ACTION_TYPE", "", ""},
		{"action type in other case", func(r *oncewardv1.RequestActionRequest) { r.ActionType = "Payments.refund.create" }, codes.NotFound, "UNKNOWN_ACTION_TYPE", "", ""},
		{"long action type", func(r *oncewardv1.RequestActionRequest) { r.ActionType = strings.Repeat("é", 300) }, codes.NotFound, "UNKNOWN_ACTION_TYPE", "", ""},

		{"no arguments", func(r *oncewardv1.RequestActionRequest) { r.ArgumentsForm = nil }, bad, "INVALID_ARGUMENTS", "arguments.charge_id", "REQUIRED"},
		{"missing argument", json(`{"charge_id":"ch_1","currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "REQUIRED"},
		{"extra argument", json(`{"charge_id":"ch_1","amount":5,"currency":"usd","force":true}`), bad, "INVALID_ARGUMENTS", "arguments.force", "UNKNOWN_FIELD"},
		{"wrong type", json(`{"charge_id":"ch_1","amount":"5","currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "TYPE"},
		{"out of range", json(`{"charge_id":"ch_1","amount":0,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "RANGE"},
		{"a fraction", json(`{"charge_id":"ch_1","amount":5.5,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "TYPE"},
		{"pattern", json(`{"charge_id":"ch 1","amount":5,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.charge_id", "PATTERN"},
		{"null", json(`{"charge_id":null,"amount":5,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.charge_id", "TYPE"},

		{"not JSON", json(`{"charge_id":`), bad, "INVALID_ARGUMENTS", "arguments.charge_id", "SYNTAX"},
		{"a list", json(`[]`), bad, "INVALID_ARGUMENTS", "arguments", "TYPE"},
		{"two values", json(`{} {}`), bad, "INVALID_ARGUMENTS", "arguments", "SYNTAX"},
		{"duplicate key", json(`{"charge_id":"ch_1","amount":5,"currency":"usd","amount":6}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "DUPLICATE_KEY"},
		{"duplicate key by escape", json(`{"charge_id":"ch_1","amount":5,"currency":"usd","\u0061mount":6}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "DUPLICATE_KEY"},
		{"lone surrogate", json(`{"charge_id":"\ud800","amount":5,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.charge_id", "INVALID_UTF8"},
		{"too big for a double", json(`{"charge_id":"ch_1","amount":1e400,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "NUMBER_INEXACT"},
		{"more digits than a double has", json(`{"charge_id":"ch_1","amount":0.1000000000000000055,"currency":"usd"}`), bad, "INVALID_ARGUMENTS", "arguments.amount", "NUMBER_INEXACT"},
		{"too deep", json(`{"charge_id":"ch_1","amount":5,"currency":"usd","reason":` + deep + `}`), bad, "INVALID_ARGUMENTS", "", "TOO_DEEP"},
		{"very deep", json(strings.Repeat("[", 100_000)), bad, "INVALID_ARGUMENTS", "", ""},
		{"too large", json(`{"charge_id":"` + strings.Repeat("x", 257<<10) + `"}`), bad, "INVALID_ARGUMENTS", "arguments", "TOO_LARGE"},

		{"Struct beyond 2^53", fields(map[string]*structpb.Value{"amount": structpb.NewNumberValue(1 << 53)}), bad, "INVALID_ARGUMENTS", "arguments.amount", "NUMBER_INEXACT"},
		{"Struct with NaN", fields(map[string]*structpb.Value{"amount": structpb.NewNumberValue(math.NaN())}), bad, "INVALID_ARGUMENTS", "arguments.amount", "NUMBER_INEXACT"},
		{"Struct with infinity", fields(map[string]*structpb.Value{"amount": structpb.NewNumberValue(math.Inf(1))}), bad, "INVALID_ARGUMENTS", "arguments.amount", "NUMBER_INEXACT"},
		{"Struct with a value of no kind", fields(map[string]*structpb.Value{"amount": {}}), bad, "INVALID_ARGUMENTS", "", ""},
		{"Struct in a list", fields(map[string]*structpb.Value{"reason": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1 << 60)}})}), bad, "INVALID_ARGUMENTS", "arguments.reason[0]", "NUMBER_INEXACT"},

		{"key with a space", key("a b"), bad, "INVALID_REQUEST", "idempotency_key", ""},
		{"key with a control character", key("a\x01"), bad, "INVALID_REQUEST", "idempotency_key", ""},
		{"key with NUL", key("a\x00b"), bad, "INVALID_REQUEST", "idempotency_key", ""},
		{"key beyond ASCII", key("clé"), bad, "INVALID_REQUEST", "idempotency_key", ""},
		{"key of white space", key("\u00a0"), bad, "INVALID_REQUEST", "idempotency_key", ""},
		{"overlong key", key(strings.Repeat("k", 256)), bad, "INVALID_REQUEST", "idempotency_key", ""},
		{"nothing to make a key of", func(r *oncewardv1.RequestActionRequest) { r.Run = nil }, bad, "KEY_REQUIRED", "idempotency_key", "KEY_REQUIRED"},
		{"no step", run(func(c *oncewardv1.RunContext) { c.StepId = "" }), bad, "KEY_REQUIRED", "idempotency_key", "KEY_REQUIRED"},

		{"run with a control character", run(func(c *oncewardv1.RunContext) { c.RunId = "run\x07" }), bad, "INVALID_REQUEST", "run.run_id", "PATTERN"},
		{"run with a line break", run(func(c *oncewardv1.RunContext) { c.RunId = "run\nlevel=ERROR" }), bad, "INVALID_REQUEST", "run.run_id", "PATTERN"},
		{"run with NUL", run(func(c *oncewardv1.RunContext) { c.RunId = "run\x00" }), bad, "INVALID_REQUEST", "run.run_id", "PATTERN"},
		{"overlong run", run(func(c *oncewardv1.RunContext) { c.RunId = strings.Repeat("r", 256) }), bad, "INVALID_REQUEST", "run.run_id", "LENGTH"},
		{"step with a control character", run(func(c *oncewardv1.RunContext) { c.StepId = "\x1b[2J" }), bad, "INVALID_REQUEST", "run.step_id", "PATTERN"},
		{"overlong step", run(func(c *oncewardv1.RunContext) { c.StepId = strings.Repeat("s", 256) }), bad, "INVALID_REQUEST", "run.step_id", "LENGTH"},
		{"tool call with DEL", run(func(c *oncewardv1.RunContext) { c.ToolCallId = "\x7f" }), bad, "INVALID_REQUEST", "run.tool_call_id", "PATTERN"},
		{"overlong tool version", run(func(c *oncewardv1.RunContext) { c.ToolVersion = strings.Repeat("1", 256) }), bad, "INVALID_REQUEST", "run.tool_version", "LENGTH"},
		{"overlong agent", run(func(c *oncewardv1.RunContext) { c.Agent = strings.Repeat("a", 256) }), bad, "INVALID_REQUEST", "run.agent", "LENGTH"},
		{"negative attempt", run(func(c *oncewardv1.RunContext) { c.Attempt = -1 }), bad, "INVALID_REQUEST", "run.attempt", "RANGE"},
		{"overlong intent", func(r *oncewardv1.RequestActionRequest) { r.IntentId = strings.Repeat("i", 256) }, bad, "INVALID_REQUEST", "intent_id", "LENGTH"},
		{"intent with a control character", func(r *oncewardv1.RequestActionRequest) { r.IntentId = "\x00" }, bad, "INVALID_REQUEST", "intent_id", "PATTERN"},

		{"negative wait", held(durationpb.New(-time.Second)), bad, "INVALID_REQUEST", "wait", "RANGE"},
		{"long wait", held(durationpb.New(61 * time.Second)), bad, "INVALID_REQUEST", "wait", "RANGE"},
		{"wait of mixed signs", held(&durationpb.Duration{Seconds: 1, Nanos: -1}), bad, "INVALID_REQUEST", "wait", "RANGE"},
		{"wait beyond durations", held(&durationpb.Duration{Seconds: math.MaxInt64}), bad, "INVALID_REQUEST", "wait", "RANGE"},

		{"correction of no id", func(r *oncewardv1.RequestActionRequest) { r.CorrectsOperationId = "op" }, bad, "INVALID_REQUEST", "corrects_operation_id", "FORMAT"},
		{"correction of nothing", func(r *oncewardv1.RequestActionRequest) {
			r.CorrectsOperationId = "01890000-0000-7000-8000-000000000000"
		}, codes.NotFound, "OPERATION_NOT_FOUND", "", ""},
		{"distinct from an upper-case id", func(r *oncewardv1.RequestActionRequest) {
			r.DistinctFromOperationId = "01890000-0000-7000-8000-00000000000A"
		}, bad, "INVALID_REQUEST", "distinct_from_operation_id", "FORMAT"},
		{"distinct from nothing", func(r *oncewardv1.RequestActionRequest) {
			r.DistinctFromOperationId = "01890000-0000-7000-8000-000000000000"
		}, codes.NotFound, "OPERATION_NOT_FOUND", "", ""},
	}
}

// Each bad request is refused with its code, reason and field path, by
// RequestAction and by PreviewAction alike; nothing is recorded, nothing sent.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	ctx := apptest.As(t.Context(), w.Agent)
	check := unchanged(t, w)
	for _, c := range badRequests() {
		t.Run(c.name, func(t *testing.T) {
			req := apptest.Refund("ch_1", 5, "run_1")
			c.change(req)
			_, err := r.Actions.RequestAction(ctx, req)
			c.want(t, err)
			_, previewed := r.Actions.PreviewAction(ctx, &oncewardv1.PreviewActionRequest{Request: req})
			c.want(t, previewed)
		})
	}
	check(t)
}

func (c badRequest) want(t *testing.T, err error) {
	t.Helper()
	st := apptest.WantReason(t, err, c.code, c.reason)
	wantPlain(t, err)
	if len(st.Message()) > 600 {
		t.Errorf("the message is %d bytes long", len(st.Message()))
	}
	if c.code != codes.InvalidArgument {
		return
	}
	violations := violationsOf(st)
	if !slices.ContainsFunc(violations, func(v *errdetails.BadRequest_FieldViolation) bool {
		return (c.field == "" || v.GetField() == c.field) && (c.why == "" || v.GetReason() == c.why) && v.GetField() != "" && v.GetDescription() != ""
	}) {
		t.Errorf("no violation %s of %s in %v", c.why, c.field, violations)
	}
}

func violationsOf(st *status.Status) []*errdetails.BadRequest_FieldViolation {
	for _, d := range st.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return bad.GetFieldViolations()
		}
	}
	return nil
}

// The other calls refuse bad input as well.
func TestBadInputOfOtherCalls(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	all := apptest.As(t.Context(), w.Key(t, "acme", "all", strings.Fields(everyone)...))
	const nobody = "01890000-0000-7000-8000-000000000000"
	list := func(change func(*oncewardv1.ListOperationsRequest)) func() error {
		return func() error {
			req := &oncewardv1.ListOperationsRequest{Filter: &oncewardv1.OperationFilter{}}
			change(req)
			_, err := r.Actions.ListOperations(all, req)
			return err
		}
	}
	resolve := func(change func(*oncewardv1.ResolveReviewRequest)) func() error {
		return func() error {
			req := &oncewardv1.ResolveReviewRequest{ReviewId: nobody, Note: "seen", Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{}}}
			change(req)
			_, err := r.Reviews.ResolveReview(all, req)
			return err
		}
	}
	byKey := func(key string) func() error {
		return func() error {
			_, err := r.Actions.GetOperation(all, &oncewardv1.GetOperationRequest{Selector: &oncewardv1.GetOperationRequest_IdempotencyKey{IdempotencyKey: key}})
			return err
		}
	}
	confirm := func(c *oncewardv1.Confirm) func() error {
		return resolve(func(r *oncewardv1.ResolveReviewRequest) {
			r.Decision = &oncewardv1.ResolveReviewRequest_Confirm{Confirm: c}
		})
	}
	on := func(id string) map[string]func() error {
		return map[string]func() error{
			"get": func() error {
				_, err := named("ActionService.GetOperation").invoke(all, r, subject{operation: id})
				return err
			},
			"watch": func() error {
				_, err := named("ActionService.WatchOperation").invoke(all, r, subject{operation: id})
				return err
			},
			"cancel": func() error {
				_, err := named("ActionService.CancelOperation").invoke(all, r, subject{operation: id})
				return err
			},
		}
	}
	cases := []struct {
		name  string
		do    func() error
		field string
	}{
		{"page size", list(func(r *oncewardv1.ListOperationsRequest) { r.PageSize = -1 }), "page_size"},
		{"large page", list(func(r *oncewardv1.ListOperationsRequest) { r.PageSize = 201 }), "page_size"},
		{"page token of rubbish", list(func(r *oncewardv1.ListOperationsRequest) { r.PageToken = "%%%" }), "page_token"},
		{"page token of another filter", list(func(r *oncewardv1.ListOperationsRequest) {
			r.PageToken = "MDE4OTAwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAwL3g"
		}), "page_token"},
		{"no state", list(func(r *oncewardv1.ListOperationsRequest) {
			r.Filter.States = []oncewardv1.OperationState{oncewardv1.OperationState(99)}
		}), "filter.states"},
		{"action type with NUL", list(func(r *oncewardv1.ListOperationsRequest) { r.Filter.ActionType = "a\x00" }), "filter.action_type"},
		{"run with NUL", list(func(r *oncewardv1.ListOperationsRequest) { r.Filter.RunId = "\x00" }), "filter.run_id"},
		{"time beyond time", list(func(r *oncewardv1.ListOperationsRequest) {
			r.Filter.CreatedAfter = &timestamppb.Timestamp{Seconds: math.MaxInt64}
		}), "filter.created_after"},
		{"time before time", list(func(r *oncewardv1.ListOperationsRequest) {
			r.Filter.CreatedBefore = &timestamppb.Timestamp{Seconds: math.MinInt64}
		}), "filter.created_before"},
		{"reviews' page size", func() error {
			_, err := r.Reviews.ListReviews(all, &oncewardv1.ListReviewsRequest{PageSize: 1000})
			return err
		}, "page_size"},
		{"reviews' page token", func() error {
			_, err := r.Reviews.ListReviews(all, &oncewardv1.ListReviewsRequest{PageToken: "x"})
			return err
		}, "page_token"},
		{"no selector", func() error { _, err := r.Actions.GetOperation(all, &oncewardv1.GetOperationRequest{}); return err }, "operation_id"},
		{"key with NUL", byKey("a\x00"), "idempotency_key"},
		{"empty key", byKey(""), "idempotency_key"},
		{"overlong key", byKey(strings.Repeat("k", 256)), "idempotency_key"},
		{"cancel note", func() error {
			_, err := r.Actions.CancelOperation(all, &oncewardv1.CancelOperationRequest{OperationId: nobody, Note: strings.Repeat("n", 501)})
			return err
		}, "note"},
		{"review id", resolve(func(r *oncewardv1.ResolveReviewRequest) { r.ReviewId = "1" }), "review_id"},
		{"no decision", resolve(func(r *oncewardv1.ResolveReviewRequest) { r.Decision = nil }), "decision"},
		{"overlong note", resolve(func(r *oncewardv1.ResolveReviewRequest) { r.Note = strings.Repeat("n", 2001) }), "note"},
		{"note with NUL", resolve(func(r *oncewardv1.ResolveReviewRequest) { r.Note = "\x00" }), "note"},
		{"confirm without reference", confirm(&oncewardv1.Confirm{}), "confirm.provider_reference"},
		{"confirm with a control character", confirm(&oncewardv1.Confirm{ProviderReference: "\x00"}), "confirm.provider_reference"},
		{"confirm with a list", confirm(&oncewardv1.Confirm{ProviderReference: "re_1", ReceiptJson: "[]"}), "confirm.receipt_json"},
		{"confirm without note", resolve(func(r *oncewardv1.ResolveReviewRequest) {
			r.Note, r.Decision = "", &oncewardv1.ResolveReviewRequest_Confirm{Confirm: &oncewardv1.Confirm{ProviderReference: "re_1"}}
		}), "note"},
		{"not applied, and then", resolve(func(r *oncewardv1.ResolveReviewRequest) {
			r.Decision = &oncewardv1.ResolveReviewRequest_NotApplied{NotApplied: &oncewardv1.NotApplied{}}
		}), "not_applied.then"},
	}
	for _, id := range []string{"", "x", nobody[1:], strings.ToUpper("01890000-0000-7000-8000-00000000000a"), "{" + nobody + "}", nobody + "\x00", "urn:uuid:" + nobody} {
		for name, do := range on(id) {
			cases = append(cases, struct {
				name  string
				do    func() error
				field string
			}{name + " " + id, do, "operation_id"})
		}
	}
	check := unchanged(t, w)
	for _, c := range cases {
		err := c.do()
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		st := apptest.WantReason(t, err, codes.InvalidArgument, "INVALID_REQUEST")
		wantPlain(t, err)
		if v := violationsOf(st); len(v) != 1 || v[0].GetField() != c.field {
			t.Errorf("%s: violations %v, want one of %s", c.name, v, c.field)
		}
	}
	check(t)
}

// bytesCodec sends bytes as they are, where a message would not let itself be
// marshalled.
type bytesCodec struct{ encoding.Codec }

func (bytesCodec) Name() string { return "proto" }
func (bytesCodec) Marshal(v any) ([]byte, error) {
	return v.([]byte), nil
}
func (bytesCodec) Unmarshal(data []byte, v any) error {
	if m, ok := v.(proto.Message); ok {
		return proto.Unmarshal(data, m)
	}
	return nil
}

// raw sends bytes to RequestAction.
func raw(ctx context.Context, r *apptest.Replica, data []byte) (*oncewardv1.RequestActionResponse, error) {
	resp := &oncewardv1.RequestActionResponse{}
	err := r.Conn.Invoke(ctx, oncewardv1.ActionService_RequestAction_FullMethodName, data, resp, grpc.ForceCodec(bytesCodec{}))
	return resp, err
}

// A message that is no message, or has a text that is no text, is the caller's
// fault and told as such.
func TestUnreadableMessages(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	ctx := apptest.As(t.Context(), w.Agent)
	good, err := proto.Marshal(apptest.Refund("ch_AAAA", 5, "run_BBBB"))
	if err != nil {
		t.Fatal(err)
	}
	check := unchanged(t, w)
	for name, data := range map[string][]byte{
		"invalid UTF-8 in arguments_json": []byte(strings.Replace(string(good), "AAAA", "A\xff\xfeA", 1)),
		"surrogate in arguments_json":     []byte(strings.Replace(string(good), "AAAA", "\xed\xa0\x80A", 1)),
		"invalid UTF-8 in run_id":         []byte(strings.Replace(string(good), "BBBB", "B\xc3\x28B", 1)),
		"cut short":                       good[:len(good)-3],
		"rubbish":                         []byte("\xff\xff\xff\xff"),
	} {
		_, err := raw(ctx, r, data)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		wantPlain(t, apptest.WantReason(t, err, codes.InvalidArgument, "INVALID_REQUEST").Err())
	}
	stream, err := r.Conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, oncewardv1.ActionService_WatchOperation_FullMethodName, grpc.ForceCodec(bytesCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg([]byte("\x0a\x01\xff")); err != nil {
		t.Fatal(err)
	}
	apptest.WantReason(t, stream.RecvMsg(&oncewardv1.WatchOperationResponse{}), codes.InvalidArgument, "INVALID_REQUEST")

	// Beyond the transport's limit nothing is read at all.
	if _, err := raw(ctx, r, make([]byte, 2<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an oversize message: %v", err)
	}
	check(t)
}
