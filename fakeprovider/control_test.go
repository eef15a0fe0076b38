package fakeprovider_test

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// control makes a control call and wants it to work.
func (b *bench) control(method, target, body string) map[string]any {
	b.t.Helper()
	r := b.send(b.t.Context(), method, target, "", body)
	b.wantStatus(r, http.StatusOK)
	return r.object(b.t)
}

func TestControlHelpNamesEveryCall(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	r := b.get("/_fake/")
	b.wantStatus(r, http.StatusOK)
	for _, call := range []string{"faults", "effects", "requests", "gates", "advance", "pause", "reset"} {
		if !strings.Contains(string(r.body), "/_fake/"+call) {
			t.Errorf("the help does not name %s", call)
		}
	}
	b.wantStatus(b.get("/_fake/nothing"), http.StatusNotFound)
	b.wantStatus(b.send(t.Context(), http.MethodPut, "/_fake/faults", "", "{}"), http.StatusNotFound)
}

func TestControlScriptsFaults(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.control(http.MethodPost, "/_fake/faults", `{"faults":["error_500_after_applying",{"kind":"rate_limited","retry_after":"7s"}]}`)
	got := b.control(http.MethodPost, "/_fake/faults", `{"match":{"path":"/v1/emails","operation_id":"op3"},"faults":[{"kind":"reject","status":404,"times":2}]}`)
	if got["pending"] != 4.0 {
		t.Errorf("pending %v, want 4", got["pending"])
	}
	b.wantStatus(b.post("/v1/emails", "", mail("li@example.test", "op3")), http.StatusNotFound)
	b.wantStatus(b.post("/v1/refunds", "", refund("ch_1", "op1")), http.StatusInternalServerError)
	limited := b.post("/v1/refunds", "", refund("ch_1", "op1"))
	b.wantStatus(limited, http.StatusTooManyRequests)
	if after := limited.header.Get("Retry-After"); after != "7" {
		t.Errorf("Retry-After %q", after)
	}
	if got := b.control(http.MethodGet, "/_fake/faults", ""); got["pending"] != 1.0 {
		t.Errorf("pending %v, want 1", got["pending"])
	}
	if got := b.control(http.MethodDelete, "/_fake/faults", ""); got["pending"] != 0.0 {
		t.Errorf("pending %v after the deletion", got["pending"])
	}
	b.wantEffects(1)
}

func TestControlMatches(t *testing.T) {
	tests := []struct {
		name, match string
		hits        bool
	}{
		{"all", `{}`, true},
		{"path", `{"path":"/v1/refunds"}`, true},
		{"other path", `{"path":"/v1/emails"}`, false},
		{"body", `{"body_contains":"ch_1"}`, true},
		{"other body", `{"body_contains":"ch_2"}`, false},
		{"operation", `{"operation_id":"op1"}`, true},
		{"other operation", `{"operation_id":"op2"}`, false},
		{"natural key", `{"natural_key":"refund:ch_1"}`, true},
		{"other natural key", `{"natural_key":"refund:ch_11"}`, false},
		{"key", `{"key":"k1"}`, true},
		{"other key", `{"key":"k2"}`, false},
		{"method", `{"method":"GET"}`, false},
		{"all at once", `{"method":"POST","path":"/v1/","body_contains":"usd","operation_id":"op1","natural_key":"refund:ch_1","key":"k1"}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, fakeprovider.Options{})
			b.control(http.MethodPost, "/_fake/faults", `{"match":`+tt.match+`,"faults":["refuse_422"]}`)
			r := b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
			b.wantStatus(r, map[bool]int{true: 422, false: 201}[tt.hits])
		})
	}
}

func TestControlMatchesLookups(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.control(http.MethodPost, "/_fake/faults", `{"match":{"method":"GET","operation_id":"op1"},"faults":["error_503_before_applying"]}`)
	b.wantStatus(b.get("/v1/refunds?operation_id=op2"), http.StatusOK)
	b.wantStatus(b.get("/v1/refunds?operation_id=op1"), http.StatusServiceUnavailable)
}

func TestControlTellsEffectsAndRequests(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.control(http.MethodPost, "/_fake/faults", `{"faults":["drop_answer_after_applying"]}`)
	b.post("/v1/refunds", "k1", refund("ch_1", "op1"))
	b.post("/v1/emails", "", mail("li@example.test", "op2"))
	b.post("/v1/emails", "", mail("li@example.test", "op2"))

	all := b.control(http.MethodGet, "/_fake/effects?at_least=3&timeout=5s", "")
	byOperation := all["by_operation"].(map[string]any)
	byResource := all["by_resource"].(map[string]any)
	byNaturalKey := all["by_natural_key"].(map[string]any)
	if all["count"] != 3.0 || byOperation["op2"] != 2.0 || byResource["refund"] != 1.0 || byNaturalKey["email:li@example.test:inv_1:2"] != 2.0 {
		t.Errorf("effects %v", all)
	}
	one := b.control(http.MethodGet, "/_fake/effects?natural_key=refund:ch_1", "")
	effect := one["effects"].([]any)[0].(map[string]any)
	if one["count"] != 1.0 || effect["operation_id"] != "op1" || effect["idempotency_key"] != "k1" {
		t.Errorf("effects %v", one)
	}
	if body := effect["body"].(map[string]any); body["charge_id"] != "ch_1" {
		t.Errorf("body %v", body)
	}
	if n := b.control(http.MethodGet, "/_fake/effects?operation_id=op2", "")["count"]; n != 2.0 {
		t.Errorf("count %v", n)
	}
	requests := b.control(http.MethodGet, "/_fake/requests?at_least=3", "")
	first := requests["requests"].([]any)[0].(map[string]any)
	if requests["received"] != 3.0 || first["status"] != 0.0 || first["fault"] != "drop_answer_after_applying" || first["body_sha256"] == "" {
		t.Errorf("requests %v", requests)
	}
	b.control(http.MethodPost, "/_fake/reset", "")
	empty := b.control(http.MethodGet, "/_fake/effects", "")
	if list, isList := empty["effects"].([]any); !isList || len(list) != 0 {
		t.Errorf("after the reset: %v", empty)
	}
}

func TestControlGates(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.wantStatus(b.get("/_fake/gates/g1?timeout=1ms"), http.StatusRequestTimeout)
	b.control(http.MethodPost, "/_fake/faults", `{"faults":[{"hold_before":"g1","hold_after":"g2"}]}`)
	answer := b.background(t.Context(), "/v1/refunds", "", refund("ch_1", "op1"))
	b.control(http.MethodGet, "/_fake/gates/g1", "")
	b.wantEffects(0)
	b.control(http.MethodPost, "/_fake/gates/g1/release", "")
	b.control(http.MethodGet, "/_fake/gates/g2", "")
	b.wantEffects(1)
	b.control(http.MethodPost, "/_fake/gates/g2/release", "")
	b.wantStatus(<-answer, http.StatusCreated)
}

func TestControlAdvance(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, fakeprovider.Options{Clock: clock})
	b.control(http.MethodPost, "/_fake/advance", `{"seconds":90}`)
	if got := clock.Now(); !got.Equal(epoch.Add(90 * time.Second)) {
		t.Errorf("the clock shows %s", got)
	}
	b.wantStatus(b.post("/_fake/advance", "", `{"seconds":-1}`), http.StatusBadRequest)
	onSystemTime := start(t, fakeprovider.Options{})
	onSystemTime.wantStatus(onSystemTime.post("/_fake/advance", "", `{"seconds":1}`), http.StatusConflict)
}

func TestControlPause(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.control(http.MethodPost, "/_fake/pause", `{"seconds":600}`)
	if r := b.post("/v1/refunds", "", refund("ch_1", "op1")); !errors.Is(r.err, syscall.ECONNREFUSED) {
		t.Errorf("want a refused connection, got %v", r)
	}
	if err := b.s.Resume(); err != nil {
		t.Fatal(err)
	}
	b.control(http.MethodPost, "/_fake/pause", `{"seconds":0.001}`)
	for ctx := deadline(t); ctx.Err() == nil; {
		if b.send(ctx, http.MethodGet, "/v1/refunds", "", "").status == http.StatusOK {
			return
		}
	}
	t.Error("the server did not resume by itself")
}

func TestLaterPauseOutlastsThePlannedResumption(t *testing.T) {
	b := start(t, fakeprovider.Options{})
	b.control(http.MethodPost, "/_fake/pause", `{"seconds":0.02}`)
	if err := b.s.Pause(); err != nil {
		t.Fatal(err)
	}
	planned := time.Now().Add(100 * time.Millisecond)
	for time.Now().Before(planned) {
		if r := b.get("/v1/refunds"); r.err == nil {
			t.Fatalf("the plan of the first pause ended the second: %v", r)
		}
	}
}

func TestControlRefusesWhatItDoesNotKnow(t *testing.T) {
	tests := []struct{ target, body, says string }{
		{"/_fake/faults", `{"faults":[]}`, "faults is empty"},
		{"/_fake/faults", `{"faults":["nonsense"]}`, `faults[0]: fault "nonsense"`},
		{"/_fake/faults", `{"faults":["none","refuse_connection_once"]}`, "POST /_fake/pause"},
		{"/_fake/faults", `{"faults":[{"kind":"delay","dely":"3s"}]}`, "dely"},
		{"/_fake/faults", `{"faults":[{"kind":"delay","delay":"3"}]}`, "missing unit"},
		{"/_fake/faults", `{"faults":["none"],"mach":{}}`, "mach"},
		{"/_fake/faults", `{"match":{"pth":"/"},"faults":["none"]}`, "pth"},
		{"/_fake/faults", `{"faults":[{"kind":"none","status":500}]}`, "takes no status"},
		{"/_fake/advance", `{"minutes":1}`, "minutes"},
		{"/_fake/pause", `{"seconds":0}`, "more than 0"},
		{"/_fake/pause", `{"seconds":601}`, "at most 600"},
	}
	b := start(t, fakeprovider.Options{Clock: fakeprovider.NewManualClock(epoch)})
	for _, tt := range tests {
		r := b.post(tt.target, "", tt.body)
		b.wantStatus(r, http.StatusBadRequest)
		if message, _ := r.object(t)["error"].(string); !strings.Contains(message, tt.says) {
			t.Errorf("%s %s: %q does not say %q", tt.target, tt.body, message, tt.says)
		}
	}
	for _, target := range []string{"effects?at_least=x", "requests?at_least=1&timeout=2h", "gates/g?timeout=5"} {
		b.wantStatus(b.get("/_fake/"+target), http.StatusBadRequest)
	}
	if n := b.p.PendingFaults(); n != 0 {
		t.Errorf("%d faults were taken in part", n)
	}
}
