package server

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// onlyMemory makes every use of the ledger fail.
func onlyMemory(book *memoryLedger) {
	book.mu.Lock()
	defer book.mu.Unlock()
	book.broken = ledger.ErrUnavailable
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func mustCall(t *testing.T, s *Server, tenant string, req *oncewardv1.RequestActionRequest) *oncewardv1.RequestActionResponse {
	t.Helper()
	resp, err := call(t.Context(), s, tenant, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// reasonOf is the status code and ErrorInfo reason of an error.
func reasonOf(err error) (codes.Code, string) {
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return st.Code(), info.GetReason()
		}
	}
	return st.Code(), ""
}

// sameError compares what callers see. Details are compared as messages: the
// bytes of a map have no fixed order.
func sameError(a, b error) bool {
	x, y := status.Convert(a), status.Convert(b)
	return x.Code() == y.Code() && x.Message() == y.Message() && slices.EqualFunc(x.Details(), y.Details(), func(a, b any) bool {
		return proto.Equal(a.(proto.Message), b.(proto.Message))
	})
}

func TestLaw06_AReplayFromMemoryIsTheLedgersAnswer(t *testing.T) {
	t.Parallel()
	book := newMemoryLedger()
	s := newFastServer(t, book, quiet(), nil)
	forgetful := newFastServer(t, book, quiet(), func(o *Options) { o.ReplayBytes = -1 })
	first := mustCall(t, s, "acme", refundRequest("key-1", refundArguments))
	if first.GetReplayed() || first.GetOperation().GetReceipt().GetJson() == "" {
		t.Fatalf("got %v", first)
	}
	want := mustCall(t, forgetful, "acme", refundRequest("key-1", refundArguments))
	opens, seals := book.opens, 0
	s.Sealer = plain{&seals}
	onlyMemory(book)
	// The same text, the same arguments in other words, another advisory one.
	for range 2 {
		for _, arguments := range []string{
			refundArguments,
			`{"amount": 1.25e3, "reason": "the customer asked for it", "charge_id": "ch_1010", "currency": "usd"}`,
			`{"charge_id":"ch_1010","amount":1250,"currency":"usd","reason":"it was late"}`,
		} {
			got := mustCall(t, s, "acme", refundRequest("key-1", arguments))
			if !proto.Equal(got, want) {
				t.Errorf("from memory %v\nfrom the ledger %v", got, want)
			}
			if !got.GetReplayed() || got.GetDisposition() != oncewardv1.Disposition_DISPOSITION_REPLAYED ||
				got.GetOperation().GetReceipt().GetJson() != first.GetOperation().GetReceipt().GetJson() {
				t.Errorf("got %v", got)
			}
		}
	}
	if book.opens != opens || seals != 0 {
		t.Errorf("%d claims and %d seals for replays", book.opens-opens, seals)
	}
}

func TestLaw05_OtherArgumentsAreRefusedFromMemoryToo(t *testing.T) {
	t.Parallel()
	book := newMemoryLedger()
	s := newFastServer(t, book, quiet(), nil)
	first := mustCall(t, s, "acme", refundRequest("key-1", refundArguments))
	other := `{"charge_id":"ch_1010","amount":1251,"currency":"usd"}`
	forgetful := newFastServer(t, book, quiet(), func(o *Options) { o.ReplayBytes = -1 })
	_, want := call(t.Context(), forgetful, "acme", refundRequest("key-1", other))
	onlyMemory(book)
	for range 3 { // the refused text is not taken for a checked one
		_, err := call(t.Context(), s, "acme", refundRequest("key-1", other))
		if code, reason := reasonOf(err); code != codes.FailedPrecondition || reason != "IDEMPOTENCY_KEY_REUSED" {
			t.Fatalf("got %v", err)
		}
		if !sameError(err, want) {
			t.Errorf("from memory %v, from the ledger %v", err, want)
		}
		if again := mustCall(t, s, "acme", refundRequest("key-1", refundArguments)); again.GetOperation().GetId() != first.GetOperation().GetId() {
			t.Errorf("got %v", again)
		}
	}
}

// What a request must pass before the ledger is asked it must pass before memory
// is.
func TestAReplayFromMemoryPassesEveryCheck(t *testing.T) {
	t.Parallel()
	book := newMemoryLedger()
	s := newFastServer(t, book, quiet(), nil)
	mustCall(t, s, "acme", refundRequest("key-1", refundArguments))
	mustCall(t, s, "acme", refundRequest("key-1", refundArguments))
	onlyMemory(book)
	longRun := refundRequest("key-1", refundArguments)
	longRun.Run.RunId = string(make([]byte, 300))
	unknown := refundRequest("key-1", refundArguments)
	unknown.ActionType = "payments.refund.undo"
	for name, test := range map[string]struct {
		req  *oncewardv1.RequestActionRequest
		code codes.Code
	}{
		"invalid arguments":   {refundRequest("key-1", `{"charge_id":"ch_1010","amount":-1,"currency":"usd"}`), codes.InvalidArgument},
		"no JSON":             {refundRequest("key-1", refundArguments+"{"), codes.InvalidArgument},
		"too long a run id":   {longRun, codes.InvalidArgument},
		"unknown action type": {unknown, codes.NotFound},
		"another key":         {refundRequest("key-2", refundArguments), codes.Unavailable},
	} {
		if _, err := call(t.Context(), s, "acme", test.req); status.Code(err) != test.code {
			t.Errorf("%s: got %v, want %s", name, err, test.code)
		}
	}
	s.Authenticator = noAgent{}
	if _, err := call(t.Context(), s, "acme", refundRequest("key-1", refundArguments)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without the role: got %v", err)
	}
}

type noAgent struct{}

func (noAgent) Authenticate(_ context.Context, c Credential) (policy.Principal, error) {
	return policy.Principal{Tenant: c.Token, Actor: "planner", Roles: []policy.Role{policy.Auditor}}, nil
}

func TestLaw10_TenantsDoNotShareReplays(t *testing.T) {
	t.Parallel()
	s := newFastServer(t, newMemoryLedger(), quiet(), nil)
	ids := map[string]string{}
	// Names that would collide if tenant and key were one text.
	for _, who := range [][2]string{{"acme", "key-1"}, {"globex", "key-1"}, {"acme|key", "-1"}, {"acm", "ekey-1"}} {
		first := mustCall(t, s, who[0], refundRequest(who[1], refundArguments))
		if first.GetReplayed() || first.GetOperation().GetTenant() != who[0] {
			t.Errorf("%v: got %v", who, first)
		}
		ids[who[0]] = first.GetOperation().GetId()
		if again := mustCall(t, s, who[0], refundRequest(who[1], refundArguments)); again.GetOperation().GetId() != ids[who[0]] || !again.GetReplayed() {
			t.Errorf("%v: got %v", who, again)
		}
	}
	// Another tenant's arguments are nobody's mismatch.
	other := mustCall(t, s, "initech", refundRequest("key-1", `{"charge_id":"ch_2","amount":1,"currency":"usd"}`))
	if other.GetReplayed() {
		t.Errorf("got %v", other)
	}
}

// succeeded is an operation with a window, as the ledger settles it now.
func succeeded(key string, window time.Duration) ledger.Operation {
	now := time.Now()
	return ledger.Operation{
		Tenant: "acme", ID: "id of " + key, Key: key, ActionType: refundType, State: ledger.Succeeded, Effect: ledger.EffectApplied,
		Revision: 2, UpdatedAt: now, WindowEndsAt: now.Add(window), Receipt: []byte(`{"id":"re_1"}`),
		Attempts: []ledger.Attempt{{Number: 1}}, Review: &ledger.Review{ID: "r"},
	}
}

// see is observe, of a copy.
func (r *replays) see(op ledger.Operation) { r.observe(&op) }

func TestReplaysEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplays(0)
		known := func(key string) bool { return r.get("acme", key) != nil }
		r.see(succeeded("long", time.Hour))
		r.see(succeeded("short", replayMargin-1)) // never remembered
		r.see(succeeded("just", replayMargin))
		if !known("long") || known("short") || !known("just") {
			t.Errorf("long %v, short %v, just %v", known("long"), known("short"), known("just"))
		}
		op := r.get("acme", "long")
		if op.Attempts != nil || op.Review != nil {
			t.Error("what a read by key does not have is remembered")
		}
		time.Sleep(replayLife - 1)
		if !known("long") || !known("just") {
			t.Error("ended early")
		}
		time.Sleep(time.Nanosecond)
		if known("long") || known("just") {
			t.Error("remembered for more than a minute")
		}
		r.see(succeeded("new", time.Hour))
		if len(r.byKey) != 1 || r.first != r.latest || r.bytes != r.first.bytes {
			t.Errorf("%d entries of %d bytes stay behind", len(r.byKey), r.bytes)
		}
		long, short := succeeded("long", replayMargin), succeeded("short", replayMargin-1)
		if !r.answersFor(&long) || r.answersFor(&short) {
			t.Error("answersFor disagrees")
		}
	})
}

// What was settled long ago, or by a database whose clock is ahead, has less of
// its window left than it seems.
func TestReplaysKnowTheDatabasesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplays(0)
		late := succeeded("late", time.Hour)
		time.Sleep(time.Hour - replayMargin + 1)
		if r.see(late); r.get("acme", "late") != nil {
			t.Error("remembered to the end of its window")
		}
		ahead := succeeded("ahead", 30*time.Minute)
		ahead.UpdatedAt = ahead.UpdatedAt.Add(29 * time.Minute)
		if r.see(ahead); r.get("acme", "ahead") != nil {
			t.Error("remembered although the window ends in a minute by the database's clock")
		}
		// The clock of the database is known from then on.
		if r.see(succeeded("read", 30*time.Minute)); r.get("acme", "read") != nil {
			t.Error("the database's clock is forgotten")
		}
	})
}

func TestReplaysFollowTheOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplays(0)
		op := succeeded("key", time.Hour)
		running, failed, incident, reused := op, op, op, op
		running.State, running.Revision = ledger.Running, 1
		failed.State, failed.Key = ledger.Failed, "failed"
		incident.Incident, incident.Revision = "two receipts", 3
		reused.ID, reused.State, reused.Revision = "another", ledger.Running, 1

		r.see(failed)
		if r.get("acme", "failed") != nil {
			t.Error("a failed operation is remembered")
		}
		r.see(op)
		r.see(running) // late news
		if got := r.get("acme", "key"); got == nil || got.State != ledger.Succeeded {
			t.Errorf("late news: %+v", got)
		}
		r.see(incident)
		if r.get("acme", "key") != nil {
			t.Error("an operation with an incident is answered from memory")
		}
		r.see(op) // a reading from before the incident
		if r.get("acme", "key") != nil {
			t.Error("an older reading hides the incident")
		}
		time.Sleep(replayLife)
		r.see(op)
		r.see(reused) // the key was set free, and taken
		if r.get("acme", "key") != nil {
			t.Error("the operation that held the key before is remembered")
		}
		r.see(succeeded("other", time.Hour))
		time.Sleep(replayLife)
		r.see(running)
		if len(r.byKey) != 0 || r.first != nil || r.latest != nil || r.bytes != 0 {
			t.Errorf("%d entries of %d bytes stay behind", len(r.byKey), r.bytes)
		}
	})
}

func TestReplaysAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	r := newReplays(limit)
	for i := range 5000 {
		op := succeeded(strconv.Itoa(i), time.Hour)
		op.Receipt = make([]byte, i%2000)
		r.see(op)
		if r.bytes > limit {
			t.Fatalf("%d bytes after %d operations", r.bytes, i+1)
		}
	}
	if n := len(r.byKey); n < 300 || n > limit/replayOverhead {
		t.Errorf("%d operations in %d bytes", n, limit)
	}
	if r.get("acme", "0") != nil || r.get("acme", "4999") == nil {
		t.Error("the oldest must go first")
	}
	huge := succeeded("huge", time.Hour)
	huge.Receipt = make([]byte, limit)
	if r.see(huge); r.get("acme", "huge") != nil || r.get("acme", "4999") == nil {
		t.Error("one that is larger than the whole must not push out the rest")
	}
	none := newReplays(-1)
	if none.see(succeeded("key", time.Hour)); none.get("acme", "key") != nil {
		t.Error("remembered without memory")
	}
	size := reflect.TypeFor[remembered]().Size() + reflect.TypeFor[ledger.Operation]().Size() + reflect.TypeFor[replayKey]().Size()
	if size > replayOverhead {
		t.Errorf("an entry takes %d bytes, counted as %d", size, replayOverhead)
	}
}

func TestReplaysAreGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReplays(0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.run(ctx); close(done) }()
		r.see(succeeded("key", time.Hour))
		time.Sleep(2 * replayLife)
		r.mu.Lock()
		if len(r.byKey) != 0 || r.bytes != 0 {
			t.Errorf("%d entries of %d bytes stay behind", len(r.byKey), r.bytes)
		}
		r.mu.Unlock()
		cancel()
		<-done
	})
}

// A request that says that it is sent again looks before it claims.
func TestRetriesAreLookedUpFirst(t *testing.T) {
	t.Parallel()
	retry := func(key, arguments string) *oncewardv1.RequestActionRequest {
		req := refundRequest(key, arguments)
		req.Run.Attempt = 2
		return req
	}
	caused := func(key, arguments string) *oncewardv1.RequestActionRequest {
		req := refundRequest(key, arguments)
		req.RetryCause = oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT
		return req
	}
	for name, again := range map[string]func(string, string) *oncewardv1.RequestActionRequest{"attempt": retry, "cause": caused} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book, seals := newMemoryLedger(), 0
			s := newFastServer(t, book, quiet(), func(o *Options) { o.ReplayBytes, o.Sealer = -1, plain{&seals} })
			first := mustCall(t, s, "acme", refundRequest("key-1", refundArguments))
			if book.reads != 0 || book.opens != 1 || seals != 1 {
				t.Fatalf("a first request: %d reads, %d claims, %d seals", book.reads, book.opens, seals)
			}
			got := mustCall(t, s, "acme", again("key-1", refundArguments))
			if !got.GetReplayed() || got.GetOperation().GetId() != first.GetOperation().GetId() {
				t.Errorf("got %v", got)
			}
			if book.reads != 1 || book.opens != 1 || seals != 1 {
				t.Errorf("found: %d reads, %d claims, %d seals", book.reads, book.opens, seals)
			}
			// The claim decides about everything else.
			_, err := call(t.Context(), s, "acme", again("key-1", `{"charge_id":"ch_1010","amount":1,"currency":"usd"}`))
			if _, reason := reasonOf(err); reason != "IDEMPOTENCY_KEY_REUSED" || book.opens != 2 {
				t.Errorf("other arguments: %v after %d claims", err, book.opens)
			}
			if got := mustCall(t, s, "acme", again("key-2", refundArguments)); got.GetReplayed() || book.opens != 3 {
				t.Errorf("never seen: %v after %d claims", got, book.opens)
			}
			book.window = time.Minute // its end is near: by whose clock?
			mustCall(t, s, "acme", refundRequest("key-3", refundArguments))
			if got := mustCall(t, s, "acme", again("key-3", refundArguments)); !got.GetReplayed() || book.opens != 5 {
				t.Errorf("near the end of the window: %v after %d claims", got, book.opens)
			}
			onlyMemory(book)
			if _, err := call(t.Context(), s, "acme", again("key-1", refundArguments)); status.Code(err) != codes.Unavailable || book.opens != 5 {
				t.Errorf("ledger away: %v after %d claims", err, book.opens)
			}
		})
	}
}

// A finished duplicate that came from the ledger is answered from memory next
// time.
func TestWhatTheLedgerAnsweredIsRemembered(t *testing.T) {
	t.Parallel()
	for name, attempt := range map[string]int32{"claim": 1, "look-up": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := newMemoryLedger()
			mustCall(t, newFastServer(t, book, quiet(), nil), "acme", refundRequest("key-1", refundArguments))
			s := newFastServer(t, book, quiet(), nil) // another replica
			req := refundRequest("key-1", refundArguments)
			req.Run.Attempt = attempt
			want := mustCall(t, s, "acme", req)
			onlyMemory(book)
			if got := mustCall(t, s, "acme", req); !proto.Equal(got, want) || !got.GetReplayed() {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// Many callers at once on few keys: one effect each, one receipt, and no other's.
func TestReplaysUnderConcurrency(t *testing.T) {
	t.Parallel()
	book := newMemoryLedger()
	s := newFastServer(t, book, quiet(), func(o *Options) { o.ReplayBytes = 8 * (replayOverhead + 500) }) // most are pushed out
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { s.Run(ctx) })
	var callers sync.WaitGroup
	var ids sync.Map
	for c := range 16 {
		callers.Go(func() {
			for i := range 200 {
				key, tenant := fmt.Sprintf("key-%d", i%20), fmt.Sprintf("tenant-%d", c%2)
				arguments := fmt.Sprintf(`{"charge_id":"ch_%d","amount":%d,"currency":"usd"}`, i%20, 1+c%2)
				resp, err := call(t.Context(), s, tenant, refundRequest(key, arguments))
				if err != nil {
					t.Error(err)
					return
				}
				op := resp.GetOperation()
				id, _ := ids.LoadOrStore(tenant+"/"+key, op.GetId())
				if op.GetTenant() != tenant || op.GetIdempotencyKey() != key || op.GetId() != id || op.GetState() != oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED {
					t.Errorf("got %v", op)
				}
				_, err = call(t.Context(), s, tenant, refundRequest(key, `{"charge_id":"ch_x","amount":7,"currency":"usd"}`))
				if _, reason := reasonOf(err); reason != "IDEMPOTENCY_KEY_REUSED" {
					t.Errorf("other arguments: got %v", err)
				}
			}
		})
	}
	callers.Wait()
	cancel()
	background.Wait()
	if n := len(book.byKey); n != 40 {
		t.Errorf("%d operations for 40 keys", n)
	}
}

// A recipe that takes a part of the key from the arguments finds nothing by
// their text alone.
func TestKeysFromArgumentsAreReplayedToo(t *testing.T) {
	t.Parallel()
	book := newMemoryLedger()
	s := newFastServer(t, book, quiet(), nil)
	registry, err := actions.NewRegistry(byCharge{})
	if err != nil {
		t.Fatal(err)
	}
	s.Registry = registry
	first := mustCall(t, s, "acme", refundRequest("", refundArguments))
	other := mustCall(t, s, "acme", refundRequest("", `{"charge_id":"ch_2","amount":1250,"currency":"usd"}`))
	onlyMemory(book)
	for range 2 {
		again := mustCall(t, s, "acme", refundRequest("", refundArguments))
		if !again.GetReplayed() || again.GetOperation().GetId() != first.GetOperation().GetId() || first.GetOperation().GetId() == other.GetOperation().GetId() {
			t.Errorf("got %v", again)
		}
	}
}

type byCharge struct{ refunds }

func (byCharge) Spec() actions.Spec {
	spec := refunds{}.Spec()
	spec.Key = []actions.KeyPart{{Name: "charge", From: "arguments.charge_id"}}
	return spec
}
