package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const good = `{"member_id":"mb_7","order_id":"or_1","order_total":4999,"points":49,"note":"first order"}`

func call(t *testing.T, arguments string) actions.Call {
	t.Helper()
	args, err := actions.ParseArguments([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{
		Tenant: "acme", OperationID: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e",
		ProviderKey: "0123456789abcdefghijklmnop", Arguments: args,
	}
}

// TestOutcomes: each answer is classified by what it proves, and the number of
// grants shows that the provider did what the test believes.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		spoil  spoil
		want   actions.Kind
		grants int
	}{
		{"a grant", spoil{}, actions.Applied, 1},
		{"no answer, applied", spoil{true, hangUp}, actions.Ambiguous, 1},
		{"no answer, not applied", spoil{false, hangUp}, actions.Ambiguous, 0},
		{"a success without its fields", spoil{true, answering(201, `{"ok":true}`)}, actions.AppliedNoReceipt, 1},
		{"an error after applying", spoil{true, answering(500, `{"error":{"code":"internal"}}`)}, actions.Ambiguous, 1},
		{"a gateway's page", spoil{true, answering(502, `<html>`)}, actions.Ambiguous, 1},
		{"maintenance, promised to be before anything", spoil{false, answering(503, `{"error":{"code":"maintenance"}}`)}, actions.NotApplied, 0},
		{"another 503", spoil{true, answering(503, `{"error":{"code":"overloaded"}}`)}, actions.Ambiguous, 1},
		{"a refusal", spoil{false, answering(422, `{"error":{"code":"unknown_member","message":"No such member."}}`)}, actions.Rejected, 0},
		{"a rate limit", spoil{false, answering(429, `{"error":{"code":"slow_down"}}`)}, actions.RateLimited, 0},
		{"our key at work", spoil{false, answering(409, `{"error":{"code":"key_in_use"}}`)}, actions.InProgress, 0},
		{"our key with another body", spoil{false, answering(409, `{"error":{"code":"key_reused"}}`)}, actions.KeyMismatch, 0},
		{"another conflict", spoil{false, answering(409, `{"error":{"code":"locked"}}`)}, actions.Ambiguous, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startProvider(t, tt.spoil)
			outcome := p.adapter(t).Execute(t.Context(), call(t, good))
			grants, posts := p.seen()
			if outcome.Kind != tt.want || grants != tt.grants || len(posts) != 1 {
				t.Errorf("outcome %s (%s), %d grants by %d writes; want %s, %d, by one", outcome.Kind, outcome.Failure.Evidence, grants, len(posts), tt.want, tt.grants)
			}
			if posts[0].authorization != "Bearer loyalty-token" || posts[0].key != "0123456789abcdefghijklmnop" {
				t.Errorf("sent with authorization %q, key %q", posts[0].authorization, posts[0].key)
			}
		})
	}
}

// TestNothingIsSentWithoutAToken: proof that nothing was applied, so that the
// attempt is made again when the token is back.
func TestNothingIsSentWithoutAToken(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	a, err := newPoints(options{
		BaseURL: p.URL, Token: tokenFile(filepath.Join(t.TempDir(), "missing")), PrivateNetworks: httpaction.Loopback(),
	})
	if err != nil {
		t.Fatal(err)
	}
	outcome := a.Execute(t.Context(), call(t, good))
	if _, posts := p.seen(); outcome.Kind != actions.NotApplied || len(posts) != 0 {
		t.Errorf("outcome %s, %d writes; want not_applied and none", outcome.Kind, len(posts))
	}
}

// TestRender: what is frozen is what is sent, without credentials and whatever
// the time.
func TestRender(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	a := p.adapter(t)
	first, err := a.Render(call(t, good))
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.Render(call(t, good))
	if err != nil || string(first) != string(second) {
		t.Errorf("rendered twice: %v\n%s\n%s", err, first, second)
	}
	a.Execute(t.Context(), call(t, good))
	_, posts := p.seen()
	if !strings.HasSuffix(string(first), posts[0].body) || strings.Contains(string(first), "loyalty-token") {
		t.Errorf("rendered %s, sent %s", first, posts[0].body)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	a := startProvider(t).adapter(t)
	if err := a.Validate(call(t, good).Arguments); err != nil {
		t.Errorf("good arguments: %v", err)
	}
	err := a.Validate(call(t, strings.Replace(good, `"points":49`, `"points":50`, 1)).Arguments)
	var refused *actions.ArgumentsError
	if !errors.As(err, &refused) || refused.Violations[0].Field != "points" {
		t.Errorf("too many points: %v, want an ArgumentsError about points", err)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	a := p.adapter(t)
	query := actions.Query{Call: call(t, good)}
	if f := a.Lookup(t.Context(), query); f.Kind != actions.Absent {
		t.Errorf("before: %s (%s), want absent", f.Kind, f.Detail)
	}
	sent := a.Execute(t.Context(), query.Call)
	if f := a.Lookup(t.Context(), query); f.Kind != actions.Found || string(f.Receipt.JSON) != string(sent.Receipt.JSON) {
		t.Errorf("after: %s with %s, want what the write answered, %s", f.Kind, f.Receipt.JSON, sent.Receipt.JSON)
	}
	again := query.Call
	again.ProviderKey = "another0key0of0the0same0op"
	a.Execute(t.Context(), again)
	if f := a.Lookup(t.Context(), query); f.Kind != actions.Several || len(f.References) != 2 {
		t.Errorf("two grants: %s of %v, want several", f.Kind, f.References)
	}
}

// TestLookupProvesNothing: whatever is not the provider's complete answer about
// this operation is inconclusive, never absent.
func TestLookupProvesNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"an error":                answering(500, `{"error":{"code":"internal"}}`),
		"not found":               answering(404, `{"error":{"code":"not_found"}}`),
		"a page of a proxy":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"no list":                 answering(200, `{"operation_id":"0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e"}`),
		"a parameter not heeded":  answering(200, `{"operation_id":"","grants":[]}`),
		"a grant without a field": answering(200, `{"operation_id":"0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e","grants":[{"id":"gr_1"}]}`),
		"no answer":               hangUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/grants", answer)
			p := &provider{URL: serve(t, mux)}
			if f := p.adapter(t).Lookup(t.Context(), actions.Query{Call: call(t, good)}); f.Kind != actions.Inconclusive {
				t.Errorf("%s (%s), want inconclusive", f.Kind, f.Detail)
			}
		})
	}
}

// TestThroughOnceward sends a request through a whole Onceward while the
// provider loses its first answer: one grant, its receipt, replays.
func TestThroughOnceward(t *testing.T) {
	t.Parallel()
	p := startProvider(t, spoil{true, hangUp})
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{p.adapter(t)}})
	onceward := w.Start(t, nil)
	ctx := apptest.As(t.Context(), w.Agent)
	request := func(arguments string) (*oncewardv1.RequestActionResponse, error) {
		return onceward.Actions.RequestAction(ctx, &oncewardv1.RequestActionRequest{
			ActionType: "loyalty.points.grant", Wait: durationpb.New(apptest.Patience),
			ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: arguments},
		})
	}

	first, err := request(good)
	if err != nil {
		t.Fatal(err)
	}
	if op := first.GetOperation(); op.GetState() != oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED || op.GetIdempotencyKey() != "tenant:acme|order:or_1" {
		t.Fatalf("got %v", op)
	}
	second, err := request(strings.Replace(good, "first order", "said in other words", 1))
	if err != nil {
		t.Fatal(err)
	}
	if !second.GetReplayed() || second.GetOperation().GetReceipt().GetJson() != first.GetOperation().GetReceipt().GetJson() {
		t.Errorf("the second request got %v, want the first's receipt as a replay", second)
	}
	_, err = request(strings.Replace(good, `"points":49`, `"points":48`, 1))
	apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
	_, err = request(strings.Replace(good, `"points":49`, `"points":50`, 1))
	apptest.WantReason(t, err, codes.InvalidArgument, "INVALID_ARGUMENTS")

	grants, posts := p.seen()
	if grants != 1 || len(posts) != 2 || posts[0] != posts[1] {
		t.Errorf("the provider holds %d grants; want one, by two equal writes: %+v", grants, posts)
	}
}
