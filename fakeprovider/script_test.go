package fakeprovider_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/onceward/onceward/fakeprovider"
)

func TestFaultsAreTakenInOrder(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.p.Next(
		fakeprovider.Fault{Kind: fakeprovider.Reject, Status: 404, Times: 2},
		fakeprovider.Fault{},
	)
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	b.p.ForMatch(func(r *http.Request, body []byte) bool {
		return r.Method == http.MethodPost && bytes.Contains(body, []byte("op_special"))
	}, fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying, Status: 503})
	if n := b.p.PendingFaults(); n != 5 {
		t.Errorf("%d faults pending, want 5", n)
	}
	for i, want := range []struct {
		operation string
		status    int
	}{
		{"a", 404}, {"op_special", 503}, {"op_special", 404}, {"b", 201}, {"c", 429}, {"d", 201},
	} {
		if r := b.post("/v1/refunds", "", refund("ch_1", want.operation)); r.status != want.status {
			t.Errorf("write %d: want %d, got %v", i, want.status, r)
		}
	}
	if n := b.p.PendingFaults(); n != 0 {
		t.Errorf("%d faults left", n)
	}
}

func TestFaultForAllUntilCleared(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited, Times: -1})
	for range 5 {
		b.wantStatus(b.post("/v1/refunds", "", refund("ch_1", "a")), http.StatusTooManyRequests)
	}
	b.p.ClearFaults()
	b.wantStatus(b.post("/v1/refunds", "", refund("ch_1", "a")), http.StatusCreated)
}

func TestFaultsThatCannotBeScripted(t *testing.T) {
	tests := map[string]fakeprovider.Fault{
		"unknown kind":       {Kind: "drop_everything"},
		"refuse connection":  {Kind: fakeprovider.RefuseConnection},
		"delay without time": {Kind: fakeprovider.Delay},
		"negative delay":     {Delay: -1},
		"reject with 500":    {Kind: fakeprovider.Reject, Status: 500},
		"error with 404":     {Kind: fakeprovider.ErrorAfterApplying, Status: 404},
		"redirect with 200":  {Kind: fakeprovider.Redirect, Status: 200},
		"status on a drop":   {Kind: fakeprovider.DropBeforeReading, Status: 500},
	}
	p := fakeprovider.New(fakeprovider.Options{})
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			if f.Validate() == nil {
				t.Errorf("%+v is valid", f)
			}
			defer func() {
				if recover() == nil {
					t.Errorf("Next took %+v", f)
				}
			}()
			p.Next(f)
		})
	}
}

func TestWaitTellsWhatIsMissing(t *testing.T) {
	p := fakeprovider.New(fakeprovider.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.WaitEffects(ctx, 2)
	if !errors.Is(err, context.Canceled) || err.Error() != "fakeprovider: 0 of 2 effects: context canceled" {
		t.Errorf("error %v", err)
	}
}

func TestOldRequestsAreDropped(t *testing.T) {
	b := start(t, fakeprovider.Options{MaxRequests: 3})
	for range 5 {
		b.get("/v1/refunds")
	}
	kept := b.p.Requests()
	if len(kept) != 3 || kept[0].Number != 3 || kept[2].Number != 5 {
		t.Errorf("kept %+v", kept)
	}
	if err := b.p.WaitRequests(deadline(t), 5); err != nil {
		t.Error(err)
	}
}

func TestResetForgets(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	gate := fakeprovider.NewGate()
	b.post("/v1/contacts", "", contact("ext1", "op1"))
	b.p.Next(fakeprovider.Fault{HoldBefore: gate}, fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	held := b.background(t.Context(), "/v1/refunds", "k1", refund("ch_1", "op1"))
	wait(t, gate.Reached(), "the request at the gate")
	b.p.Reset()
	if r := <-held; r.err == nil {
		t.Errorf("the held request was answered: %v", r)
	}
	if b.p.PendingFaults() != 0 || len(b.p.Requests()) != 0 {
		t.Errorf("left: %d faults, %+v", b.p.PendingFaults(), b.p.Requests())
	}
	b.wantEffects(0)
	b.wantStatus(b.post("/v1/contacts", "", contact("ext1", "op1")), http.StatusCreated)
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_2", "op2")), http.StatusCreated)
}
