package fakeprovider_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

func TestKeyReplaysTheStoredAnswer(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	first := b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	second := b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	b.wantStatus(second, http.StatusCreated)
	if string(first.body) != string(second.body) {
		t.Errorf("replay %s, first %s", second.body, first.body)
	}
	if first.header.Get("Idempotent-Replayed") != "" || second.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay marks: %v, %v", first.header, second.header)
	}
	b.wantStatus(b.post("/v1/refunds", "k2", refund("ch_1", "op1")), http.StatusCreated)
	b.wantStatus(b.post("/v1/refunds", "", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(3)
	if r := b.p.Requests()[1]; !r.Replayed || r.EffectID != "" || r.Attempt != 2 {
		t.Errorf("record of the replay: %+v", r)
	}
}

func TestKeyWithAnotherBodyIsRefused(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	r := b.post("/v1/refunds", "k1", refund("ch_2", "op1"))
	b.wantStatus(r, http.StatusBadRequest)
	if fields := r.object(t)["error"].(map[string]any); fields["type"] != "idempotency_error" || fields["code"] != "idempotency_key_reused" {
		t.Errorf("error %v", fields)
	}
	b.wantEffects(1)
}

func TestKeyInUse(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: gate})
	first := b.background(t.Context(), "/v1/refunds", "k1", refund("ch_1", "op1"))
	wait(t, gate.Reached(), "the first request at the gate")
	second := b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	b.wantStatus(second, http.StatusConflict)
	if code := second.code(t); code != "idempotency_key_in_use" {
		t.Errorf("code %q", code)
	}
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_2", "op1")), http.StatusBadRequest)
	b.wantEffects(0)
	gate.Release()
	b.wantStatus(<-first, http.StatusCreated)
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(1)
}

func TestKeyIsForgottenAfterItsWindow(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock, KeyWindow: time.Hour})
	b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	clock.Advance(time.Hour - 1)
	b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	b.wantEffects(1)
	clock.Advance(1)
	if r := b.post("/v1/refunds", "k1", refund("ch_1", "op1")); r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("a forgotten key was replayed: %v", r)
	}
	b.wantEffects(2)
}

func TestKeyInUseOutlastsItsWindow(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock, KeyWindow: time.Hour})
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: gate})
	first := b.background(t.Context(), "/v1/refunds", "k1", refund("ch_1", "op1"))
	wait(t, gate.Reached(), "the first request at the gate")
	clock.Advance(2 * time.Hour)
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusConflict)
	gate.Release()
	b.wantStatus(<-first, http.StatusCreated)
	b.wantEffects(1)
}

func TestKeysIgnored(t *testing.T) {
	b := start(t, fakeprovider.Options{IgnoreKeys: true})
	b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	b.wantEffects(2)
}

func TestKeyTooLong(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.wantStatus(b.post("/v1/refunds", strings.Repeat("k", 256), refund("ch_1", "op1")), http.StatusBadRequest)
	b.wantStatus(b.post("/v1/refunds", strings.Repeat("k", 255), refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(1)
}

// TestFailuresAndKeys sends the same write twice under one key, the first time
// with a fault.
func TestFailuresAndKeys(t *testing.T) {
	const charge, missing = "ch_1", "ch_missing"
	tests := []struct {
		name          string
		fault         string
		inExecution   bool
		charge        string
		storeFailures bool
		first, second int
		replayed      bool
		effects       int
	}{
		{name: "error before, stored", fault: "error_500_before_applying", charge: charge, storeFailures: true, first: 500, second: 500, replayed: true},
		{name: "error before, not stored", fault: "error_500_before_applying", charge: charge, first: 500, second: 201, effects: 1},
		{name: "error after, stored", fault: "error_503_after_applying", charge: charge, storeFailures: true, first: 503, second: 503, replayed: true, effects: 1},
		{name: "error after, not stored", fault: "error_503_after_applying", charge: charge, first: 503, second: 201, replayed: true, effects: 1},
		{name: "reject at the door is never stored", fault: "refuse_400", charge: charge, storeFailures: true, first: 400, second: 201, effects: 1},
		{name: "reject in execution, stored", fault: "refuse_402", inExecution: true, charge: charge, storeFailures: true, first: 402, second: 402, replayed: true},
		{name: "reject in execution, not stored", fault: "refuse_402", inExecution: true, charge: charge, first: 402, second: 201, effects: 1},
		{name: "rate limit is never stored", fault: "rate_limited", charge: charge, storeFailures: true, first: 429, second: 201, effects: 1},
		{name: "unknown charge, stored", fault: "none", charge: missing, storeFailures: true, first: 422, second: 422, replayed: true},
		{name: "unknown charge, not stored", fault: "none", charge: missing, first: 422, second: 422},
		{name: "dropped answer", fault: "drop_answer_after_applying", charge: charge, first: 0, second: 201, replayed: true, effects: 1},
		{name: "dropped request", fault: "drop_before_reading", charge: charge, storeFailures: true, first: 0, second: 201, effects: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, fakeprovider.Options{StoreFailures: tt.storeFailures})
			f, err := fakeprovider.ParseFault(tt.fault)
			if err != nil {
				t.Fatal(err)
			}
			f.InExecution = tt.inExecution
			b.p.Next(f)
			first := b.post("/v1/refunds", "k1", refund(tt.charge, "op1"))
			second := b.post("/v1/refunds", "k1", refund(tt.charge, "op1"))
			if first.status != tt.first || second.status != tt.second {
				t.Errorf("first: %v\nsecond: %v\nwant %d, %d", first, second, tt.first, tt.second)
			}
			if got := second.header.Get("Idempotent-Replayed") == "true"; got != tt.replayed {
				t.Errorf("replayed %v, want %v", got, tt.replayed)
			}
			b.wantEffects(tt.effects)
		})
	}
}

func TestValidationFailureIsNotStored(t *testing.T) {
	b := start(t, fakeprovider.Options{StoreFailures: true})
	bad := `{"charge_id":"ch_1","amount":0,"currency":"usd"}`
	b.wantStatus(b.post("/v1/refunds", "k1", bad), http.StatusBadRequest)
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(1)
}

func TestManyAtOnceUnderOneKey(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if r := b.post("/v1/refunds", "k1", refund("ch_1", "op1")); r.status != http.StatusCreated && r.status != http.StatusConflict {
				t.Errorf("unexpected: %v", r)
			}
		})
		all.Go(func() { b.post("/v1/contacts", "", contact("ext1", "op2")) })
	}
	all.Wait()
	b.wantEffects(2)
}
