package fakeprovider_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/onceward/onceward/fakeprovider"
)

func TestPauseRefusesConnections(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	transport := &http.Transport{} // keeps connections
	t.Cleanup(transport.CloseIdleConnections)
	b.client = &http.Client{Transport: transport}
	b.wantStatus(b.get("/v1/refunds"), http.StatusOK)
	url := b.s.URL()
	for range 2 {
		if err := b.s.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	// Without a key: Go's transport must not resend on its own here.
	for range 2 {
		if r := b.post("/v1/refunds", "", refund("ch_1", "op1")); r.err == nil {
			t.Errorf("got in during the pause: %v", r)
		}
	}
	if r := b.post("/v1/refunds", "", refund("ch_1", "op1")); !errors.Is(r.err, syscall.ECONNREFUSED) {
		t.Errorf("want a refused connection, got %v", r)
	}
	b.wantEffects(0)
	for range 2 {
		if err := b.s.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	if b.s.URL() != url {
		t.Errorf("the address changed from %s to %s", url, b.s.URL())
	}
	b.wantStatus(b.post("/v1/refunds", "", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(1)
}

func TestPauseLetsWorkGoOn(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: gate})
	answer := b.background(t.Context(), "/v1/refunds", "", refund("ch_1", "op1"))
	wait(t, gate.Reached(), "the request at the gate")
	if err := b.s.Pause(); err != nil {
		t.Fatal(err)
	}
	gate.Release()
	b.wantStatus(<-answer, http.StatusCreated)
	b.wantEffects(1)
}

func TestCloseGivesUpWhatIsHeld(t *testing.T) {
	b := start(t, fakeprovider.Options{Clock: fakeprovider.NewManualClock(epoch)})
	before, after := fakeprovider.NewGate(), fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: before}, fakeprovider.Fault{HoldAfter: after})
	first := b.background(t.Context(), "/v1/refunds", "k1", refund("ch_1", "op1"))
	wait(t, before.Reached(), "the first request at its gate")
	second := b.background(t.Context(), "/v1/refunds", "k2", refund("ch_2", "op2"))
	wait(t, after.Reached(), "the second request at its gate")
	for range 2 {
		if err := b.s.Close(); err != nil {
			t.Error(err)
		}
	}
	if r := <-first; r.err == nil {
		t.Errorf("first answered: %v", r)
	}
	if r := <-second; r.err == nil {
		t.Errorf("second answered: %v", r)
	}
	if b.s.Resume() == nil {
		t.Error("a closed server resumed")
	}
	b.wantEffects(1)

	// The provider keeps its data and can be served again; a key that was
	// only reserved is free.
	again, err := fakeprovider.Start(b.p, "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	b.s = again
	b.wantStatus(b.post("/v1/refunds", "k1", refund("ch_1", "op1")), http.StatusCreated)
	b.wantEffects(2)
}

func TestCloseDuringAPause(t *testing.T) {
	for range 20 { // net/http notices the closed listener sooner or later
		s, err := fakeprovider.Start(fakeprovider.New(fakeprovider.Options{}), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Pause(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestResetGivesUpLookups(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	before, after := fakeprovider.NewGate(), fakeprovider.NewGate()
	b.p.NextLookup(fakeprovider.Fault{HoldBefore: before}, fakeprovider.Fault{HoldAfter: after})
	for _, gate := range []*fakeprovider.Gate{before, after} {
		answer := make(chan reply, 1)
		go func() { answer <- b.get("/v1/refunds") }()
		wait(t, gate.Reached(), "the look-up at its gate")
		if gate == before {
			continue // the reset below ends both
		}
		b.p.Reset()
		if r := <-answer; r.err == nil {
			t.Errorf("answered: %v", r)
		}
	}
}

func TestStartOnATakenAddress(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	if s, err := fakeprovider.Start(b.p, b.s.Addr()); err == nil {
		t.Errorf("two servers on %s; closing one: %v", s.Addr(), s.Close())
	}
}

// TestHandlerWithoutAConnection: a recorder cannot be cut, so the handler is
// aborted the way net/http knows.
func TestHandlerWithoutAConnection(t *testing.T) {
	p := fakeprovider.New(fakeprovider.Options{})
	p.Next(fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading})
	req := httptest.NewRequest(http.MethodPost, "/v1/refunds", nil)
	req.Header.Set("Authorization", "Bearer "+fakeprovider.DefaultToken)
	defer func() {
		got, _ := recover().(error)
		if !errors.Is(got, http.ErrAbortHandler) {
			t.Errorf("recovered %v", got)
		}
	}()
	p.Handler().ServeHTTP(httptest.NewRecorder(), req)
}
