package fakeprovider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/fakeprovider"
)

// TestEveryKindOfFault sends one refund into each kind of fault that answers
// by itself and holds what the client sees against what the target holds.
func TestEveryKindOfFault(t *testing.T) {
	type fault = fakeprovider.Fault
	noAnswer := func(t *testing.T, r reply) {
		t.Helper()
		if r.err == nil {
			t.Errorf("got an answer: %v", r)
		}
	}
	status := func(want int) func(*testing.T, reply) {
		return func(t *testing.T, r reply) {
			t.Helper()
			if r.err != nil || r.bodyErr != nil || r.status != want {
				t.Errorf("want %d, got %v", want, r)
			}
		}
	}
	cutShort := func(t *testing.T, r reply) {
		t.Helper()
		if r.status != http.StatusCreated || !errors.Is(r.bodyErr, io.ErrUnexpectedEOF) || len(r.body) == 0 {
			t.Errorf("want half a 201, got %v", r)
		}
	}
	redirect := func(want int, location string) func(*testing.T, reply) {
		return func(t *testing.T, r reply) {
			t.Helper()
			if r.status != want || !strings.HasPrefix(r.header.Get("Location"), location) {
				t.Errorf("want %d to %s, got %v to %s", want, location, r, r.header.Get("Location"))
			}
		}
	}
	retryAfter := func(code int, want string) func(*testing.T, reply) {
		return func(t *testing.T, r reply) {
			t.Helper()
			if r.status != code || r.header.Get("Retry-After") != want {
				t.Errorf("want %d, Retry-After %q; got %v, %q", code, want, r, r.header.Get("Retry-After"))
			}
		}
	}
	tests := []struct {
		name    string
		fault   fault
		effects int
		sees    func(*testing.T, reply)
	}{
		{"none", fault{}, 1, status(201)},
		{"drop after", fault{Kind: fakeprovider.DropAnswerAfterApplying}, 1, noAnswer},
		{"drop after with RST", fault{Kind: fakeprovider.DropAnswerAfterApplying, Reset: true}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if !errors.Is(r.err, syscall.ECONNRESET) {
				t.Errorf("want a reset, got %v", r)
			}
		}},
		{"drop before", fault{Kind: fakeprovider.DropBeforeReading}, 0, noAnswer},
		{"short delay", fault{Kind: fakeprovider.Delay, Delay: time.Millisecond}, 1, status(201)},
		{"short delay after", fault{Kind: fakeprovider.DelayAfterApplying, Delay: time.Millisecond}, 1, status(201)},
		{"rate limited", fault{Kind: fakeprovider.RateLimited, RetryAfter: 1500 * time.Millisecond}, 0, retryAfter(429, "2")},
		{"rate limited without a time", fault{Kind: fakeprovider.RateLimited}, 0, retryAfter(429, "")},
		{"rate limited with a date", fault{Kind: fakeprovider.RateLimited, Status: 503, RetryAfterText: "Mon, 02 Nov 2026 09:00:00 GMT"}, 0,
			retryAfter(503, "Mon, 02 Nov 2026 09:00:00 GMT")},
		{"reject", fault{Kind: fakeprovider.Reject}, 0, status(422)},
		{"reject 404", fault{Kind: fakeprovider.Reject, Status: 404}, 0, status(404)},
		{"error before", fault{Kind: fakeprovider.ErrorBeforeApplying, Status: 503}, 0, status(503)},
		{"error after", fault{Kind: fakeprovider.ErrorAfterApplying}, 1, status(500)},
		{"own answer that there is not", fault{Kind: fakeprovider.OwnAnswer, Answer: "x"}, 0, status(500)},
		{"own answer that there is not, after", fault{Kind: fakeprovider.OwnAnswer, Answer: "x", Apply: true}, 1, status(500)},
		{"redirect", fault{Kind: fakeprovider.Redirect}, 0, redirect(307, "/v1/refunds")},
		{"redirect elsewhere", fault{Kind: fakeprovider.Redirect, Status: 308, Location: "http://elsewhere.test/x"}, 0, redirect(308, "http://elsewhere.test/x")},
		{"redirect 303 after", fault{Kind: fakeprovider.Redirect, Status: 303, Apply: true}, 1, redirect(303, "/v1/refunds/re_")},
		{"proxy page", fault{Kind: fakeprovider.HTML502}, 0, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 502 || r.header.Get("Server") == "onceward-fakeprovider" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
				t.Errorf("got %v with %v", r, r.header)
			}
		}},
		{"proxy page after", fault{Kind: fakeprovider.HTML502, Apply: true}, 1, status(502)},
		{"accepted", fault{Kind: fakeprovider.Accepted202}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 202 || r.object(t)["status"] != "pending" {
				t.Errorf("got %v", r)
			}
		}},
		{"truncated", fault{Kind: fakeprovider.TruncateAnswer}, 1, cutShort},
		{"truncated in chunks", fault{Kind: fakeprovider.TruncateAnswerChunked}, 1, cutShort},
		{"truncated at close", fault{Kind: fakeprovider.TruncateAnswerUntilClose}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 201 || r.bodyErr != nil || json.Valid(r.body) {
				t.Errorf("want half an answer that looks whole, got %v", r)
			}
		}},
		{"malformed", fault{Kind: fakeprovider.MalformedJSON201}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 201 || r.bodyErr != nil || json.Valid(r.body) {
				t.Errorf("got %v", r)
			}
		}},
		{"empty", fault{Kind: fakeprovider.Empty201}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 201 || r.bodyErr != nil || len(r.body) != 0 {
				t.Errorf("got %v", r)
			}
		}},
		{"wrong content type", fault{Kind: fakeprovider.WrongContentType}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 201 || r.header.Get("Content-Type") != "text/html; charset=utf-8" || r.object(t)["charge_id"] != "ch_1" {
				t.Errorf("got %v with %v", r, r.header)
			}
		}},
		{"huge", fault{Kind: fakeprovider.HugeAnswer, Size: 100_000}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.status != 201 || len(r.body) != 100_000 || r.object(t)["charge_id"] != "ch_1" {
				t.Errorf("got %d bytes: %v", len(r.body), r)
			}
		}},
		{"NUL", fault{Kind: fakeprovider.NULAnswer}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if r.object(t)["status"] != "succeeded\x00" {
				t.Errorf("got %v", r)
			}
		}},
		{"lone surrogate", fault{Kind: fakeprovider.LoneSurrogateAnswer, Field: "reason"}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if !bytes.Contains(r.body, []byte(`"customer_requested\ud800"`)) || !json.Valid(r.body) {
				t.Errorf("got %v", r)
			}
		}},
		{"invalid UTF-8", fault{Kind: fakeprovider.InvalidUTF8Answer, Field: "amount"}, 1, func(t *testing.T, r reply) {
			t.Helper()
			if utf8.Valid(r.body) || !bytes.Contains(r.body, []byte("\"4900\xff\xfe\"")) {
				t.Errorf("got %v", r)
			}
		}},
	}
	covered := map[fakeprovider.Kind]bool{
		fakeprovider.None: true, fakeprovider.RefuseConnection: true, // TestPauseRefusesConnections
		fakeprovider.NeverAnswer: true, // TestNeverAnswer
	}
	for _, tt := range tests {
		covered[tt.fault.Kind] = true
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, fakeprovider.Options{})
			b.p.Next(tt.fault)
			r := b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
			tt.sees(t, r)
			b.wantEffects(tt.effects)
			if err := b.p.WaitFinished(deadline(t), 1); err != nil {
				t.Fatal(err)
			}
			rec := b.p.Requests()[0]
			if rec.Fault != tt.fault.String() || rec.Status != r.status || (rec.EffectID != "") != (tt.effects == 1) {
				t.Errorf("record %+v, client saw %v", rec, r)
			}
			// The fault is over: the next write works.
			b.wantStatus(b.post("/v1/refunds", "k2", refund("ch_2", "op2")), http.StatusCreated)
		})
	}
	for _, kind := range fakeprovider.Kinds() {
		if !covered[kind] {
			t.Errorf("no test of %s", kind)
		}
	}
}

func TestDelayedWriteIsAppliedThoughTheClientLeft(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock})
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.Delay, Delay: 3 * time.Second})
	ctx, leave := context.WithCancel(t.Context())
	answer := b.background(ctx, "/v1/refunds", "k1", refund("ch_1", "op1"))
	if err := clock.WaitSleepers(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	leave()
	if r := <-answer; !errors.Is(r.err, context.Canceled) {
		t.Errorf("client saw %v", r)
	}
	clock.Advance(3*time.Second - 1)
	b.wantEffects(0)
	clock.Advance(1)
	if err := b.p.WaitEffects(deadline(t), 1); err != nil {
		t.Error(err)
	}
}

func TestDelayAfterApplying(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock})
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.DelayAfterApplying, Delay: time.Second})
	answer := b.background(t.Context(), "/v1/refunds", "k1", refund("ch_1", "op1"))
	if err := clock.WaitSleepers(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	b.wantEffects(1)
	if rec := b.p.Requests()[0]; rec.Status != 0 || rec.Finished {
		t.Errorf("answered already: %+v", rec)
	}
	clock.Advance(time.Second)
	b.wantStatus(<-answer, http.StatusCreated)
}

func TestNeverAnswer(t *testing.T) {
	for _, apply := range []bool{false, true} {
		b := start(t, fakeprovider.Options{})
		b.p.Next(fakeprovider.Fault{Kind: fakeprovider.NeverAnswer, Apply: apply})
		ctx, leave := context.WithCancel(t.Context())
		answer := b.background(ctx, "/v1/refunds", "", refund("ch_1", "op1"))
		if err := b.p.WaitRequests(deadline(t), 1); err != nil {
			t.Fatal(err)
		}
		if apply {
			if err := b.p.WaitEffects(deadline(t), 1); err != nil {
				t.Fatal(err)
			}
		}
		leave()
		<-answer
		if err := b.p.WaitFinished(deadline(t), 1); err != nil {
			t.Error(err)
		}
		b.wantEffects(map[bool]int{false: 0, true: 1}[apply])
	}
}

func TestHoldAfterApplying(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, HoldAfter: gate})
	answer := b.background(t.Context(), "/v1/refunds", "", refund("ch_1", "op1"))
	wait(t, gate.Reached(), "the request at the gate")
	b.wantEffects(1)
	gate.Release()
	gate.Release()
	if r := <-answer; r.err == nil {
		t.Errorf("got an answer: %v", r)
	}
}

func TestAcceptedSettlesLater(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock})
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.Accepted202, SettleAfter: time.Minute})
	id := b.post("/v1/refunds", "k1", refund("ch_1", "op1")).object(t)["id"].(string)
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusAccepted)
	if s := b.get("/v1/refunds/" + id).object(t)["status"]; s != "pending" {
		t.Errorf("status %v before it settled", s)
	}
	clock.Advance(time.Minute)
	if s := b.get("/v1/refunds/" + id).object(t)["status"]; s != "succeeded" {
		t.Errorf("status %v after it settled", s)
	}
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(1)
}

func TestLookupLagOfAFault(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock})
	lag := fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, LookupLag: time.Minute}
	b.p.Next(lag, lag)
	b.post("/v1/refunds", "", refund("ch_1", "op1"))
	b.post("/v1/contacts", "", contact("ext1", "op2"))
	b.wantEffects(2)
	if n := b.found("/v1/refunds?operation_id=op1"); n != 0 {
		t.Errorf("found %d refunds before the lag is over", n)
	}
	b.wantStatus(b.get("/v1/contacts/by-external-id/ext1"), http.StatusNotFound)
	clock.Advance(time.Minute)
	if n := b.found("/v1/refunds?operation_id=op1"); n != 1 {
		t.Errorf("found %d refunds after the lag", n)
	}
	b.wantStatus(b.get("/v1/contacts/by-external-id/ext1"), http.StatusOK)
}

func TestDuplicateLookup(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	twice := fakeprovider.Fault{DuplicateLookup: true}
	b.p.Next(twice, twice)
	b.post("/v1/emails", "", mail("li@example.test", "op1"))
	b.post("/v1/contacts", "", contact("ext1", "op2"))
	if n := b.found("/v1/emails?operation_id=op1"); n != 2 {
		t.Errorf("found %d mails, want 2 for one effect", n)
	}
	r := b.get("/v1/contacts/by-external-id/ext1")
	b.wantStatus(r, http.StatusMultipleChoices)
	if n := len(r.object(t)["data"].([]any)); n != 2 {
		t.Errorf("found %d contacts, want 2 for one effect", n)
	}
	b.wantEffects(2)
}

func TestLookupsFailToo(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.post("/v1/refunds", "", refund("ch_1", "op1"))
	b.p.NextLookup(
		fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying, Status: 503},
		fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading},
		fakeprovider.Fault{Kind: fakeprovider.TruncateAnswer},
	)
	b.post("/v1/refunds", "", refund("ch_2", "op2")) // takes none of them
	const search = "/v1/refunds?operation_id=op1"
	b.wantStatus(b.get(search), http.StatusServiceUnavailable)
	if r := b.get(search); r.err == nil {
		t.Errorf("got an answer: %v", r)
	}
	if r := b.get(search); r.status != http.StatusOK || r.bodyErr == nil {
		t.Errorf("want half an answer, got %v", r)
	}
	if n := b.found(search); n != 1 {
		t.Errorf("found %d", n)
	}
}

// TestKeptConnectionTemptsGoToResend shows the trap that a client must avoid:
// Go's transport resends a keyed POST when a reused connection breaks, so a
// provider that ignores keys acts twice and the caller sees one 201.
func TestKeptConnectionTemptsGoToResend(t *testing.T) {
	b := start(t, fakeprovider.Options{IgnoreKeys: true})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	b.client = &http.Client{Transport: transport}
	b.wantStatus(b.get("/v1/refunds"), http.StatusOK) // warms the connection
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(2)
}
