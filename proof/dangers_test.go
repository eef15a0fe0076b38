package proof

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
)

// careful is a spec without a danger, if its adapter has a look-up.
func careful() actions.Spec {
	return actions.Spec{
		Type: "a.b", Version: "1", Schema: json.RawMessage(`{"type":"object","required":["order"]}`),
		Key: []actions.KeyPart{{Name: "tenant", From: "tenant"}, {Name: "order", From: "arguments.order"}},
		Contract: actions.Contract{
			Provider: "p", Version: "1", LateLanding: time.Minute,
			Keys:   actions.KeyRules{Honoured: true, Window: 24 * time.Hour, Margin: time.Hour},
			Lookup: actions.LookupRules{Authoritative: true, SettleTime: time.Minute, NegativeReads: 2},
		},
	}
}

func TestDangers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*actions.Spec)
		blind  bool     // without a look-up
		want   []string // severity and code
	}{
		"careful":              {func(*actions.Spec) {}, false, nil},
		"careful, keys only":   {func(s *actions.Spec) { s.Contract.Lookup = actions.LookupRules{} }, true, nil},
		"look-up only":         {func(s *actions.Spec) { s.Contract.Keys = actions.KeyRules{} }, false, nil},
		"a look-up of nobody":  {func(*actions.Spec) {}, true, []string{"error lookup_missing"}},
		"no settle time":       {func(s *actions.Spec) { s.Contract.Lookup.SettleTime = 0 }, false, []string{"error no_settle_time"}},
		"one read":             {func(s *actions.Spec) { s.Contract.Lookup.NegativeReads = 1 }, false, []string{"warning one_negative_read"}},
		"reads that never fit": {func(s *actions.Spec) { s.MaxResolves = 2 }, false, []string{"error reads_never_fit"}},
		"nothing afterwards":   {func(s *actions.Spec) { s.Contract.LateLanding = 0 }, false, []string{"warning no_late_landing"}},
		"days of settling":     {func(s *actions.Spec) { s.Contract.Lookup.SettleTime = 48 * time.Hour }, false, []string{"warning long_settle_time"}},
		"no margin":            {func(s *actions.Spec) { s.Contract.Keys.Margin = 0 }, false, []string{"warning no_margin"}},
		"one attempt":          {func(s *actions.Spec) { s.MaxAttempts = 1 }, false, []string{"warning no_replay"}},
		"one attempt, keys only": {func(s *actions.Spec) { s.MaxAttempts = 1; s.Contract.Lookup = actions.LookupRules{} }, true,
			[]string{"error no_replay", "error no_resolution"}},
		// Timeout 30 s and grace 15 s: a lease is 45 s, five attempts begin within
		// 4 × 30 s and 3.5 s of backoff, or 4 × 45 s and 3.5 s.
		"a window below two leases": {window(90 * time.Second), false, []string{"warning window_shorter_than_lease"}},
		"a window below the retries": {window(90*time.Second + 1), false,
			[]string{"warning window_shorter_than_retries"}},
		"almost the retries":         {window(168*time.Second + 499*time.Millisecond), false, []string{"warning window_shorter_than_retries"}},
		"a window below the crashes": {window(168*time.Second + 500*time.Millisecond), false, []string{"warning window_shorter_than_crashes"}},
		"almost the crashes":         {window(228*time.Second + 499*time.Millisecond), false, []string{"warning window_shorter_than_crashes"}},
		"a window for crashes":       {window(228*time.Second + 500*time.Millisecond), false, nil},
		"a short window, keys only": {func(s *actions.Spec) { window(2 * time.Minute)(s); s.Contract.Lookup = actions.LookupRules{} }, true,
			[]string{"error window_shorter_than_retries"}},
		"a useless window, keys only": {func(s *actions.Spec) { window(time.Minute)(s); s.Contract.Lookup = actions.LookupRules{} }, true,
			[]string{"error window_shorter_than_lease"}},
		"absence is never proved": {func(s *actions.Spec) { s.Contract.Lookup = actions.LookupRules{}; s.Contract.Keys = actions.KeyRules{} }, false,
			[]string{"warning absence_never_proved"}},
		"nothing at all": {func(s *actions.Spec) { s.Contract = actions.Contract{Provider: "p", Version: "1"} }, true, []string{"error no_resolution"}},
		"events only": {func(s *actions.Spec) {
			s.Contract = actions.Contract{Provider: "p", Version: "1", EventWait: time.Hour}
		}, true, []string{"warning events_only"}},
		"failures without keys": {func(s *actions.Spec) { s.Contract.Keys = actions.KeyRules{StoresFailures: true} }, false,
			[]string{"warning failures_without_keys"}},
		"an advisory key part": {func(s *actions.Spec) { s.AdvisoryArgs = []string{"order"} }, false, []string{"error advisory_in_key"}},
		"an optional key part": {func(s *actions.Spec) { s.Schema = json.RawMessage(`{"type":"object"}`) }, false, []string{"warning optional_in_key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := careful()
			tt.change(&spec)
			var got []string
			for _, d := range Dangers(spec, !tt.blind) {
				got = append(got, string(d.Severity)+" "+d.Code)
				if d.Message == "" {
					t.Errorf("%s says nothing", d.Code)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// window is a key window after its margin.
func window(d time.Duration) func(*actions.Spec) {
	return func(s *actions.Spec) { s.Contract.Keys.Window, s.Contract.Keys.Margin = d+time.Second, time.Second }
}

// TestErrorsComeFirst also holds that an acknowledged danger is a warning with
// its reason.
func TestErrorsComeFirst(t *testing.T) {
	t.Parallel()
	spec := careful()
	spec.Contract.LateLanding, spec.Contract.Lookup.SettleTime, spec.Contract.Keys.Margin = 0, 0, 0
	found := Dangers(spec, true)
	if len(found) != 2 || found[0].Severity != Error || found[1].Severity != Warning {
		t.Fatalf("got %+v", found)
	}
	s := &sample{Subject: Subject{Acknowledged: map[string]string{"no_settle_time": "a unique index"}}, spec: spec.WithDefaults(), looks: true}
	for _, d := range s.dangers() {
		if d.Severity != Warning || (d.Acknowledged == "a unique index") != (d.Code == "no_settle_time") {
			t.Errorf("got %+v", d)
		}
	}
}
