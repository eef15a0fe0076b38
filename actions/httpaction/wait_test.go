package httpaction_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// How long to wait: what the answer says, else its rule, else the provider's
// usual after a rate limit.
func TestClassifyWaits(t *testing.T) {
	c, err := httpaction.NewClassifier(httpaction.Rules{
		Receipt: httpaction.JSONReceipt("id"),
		Failure: func(x httpaction.Exchange) (string, string) { return x.Header.Get("X-Code"), "by header" },
		RetryAfter: func(x httpaction.Exchange) (time.Duration, bool) {
			wait, err := time.ParseDuration(x.Header.Get("X-Wait"))
			return wait, err == nil
		},
		Wait: 5 * time.Second,
		Overrides: []httpaction.Rule{
			{Statuses: []int{503}, Codes: []string{"busy"}, Kind: actions.RateLimited, Because: "manual", Wait: time.Minute},
			{Statuses: []int{409}, Kind: actions.InProgress},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		status     int
		code, wait string
		kind       actions.Kind
		after      time.Duration
	}{
		{429, "", "", actions.RateLimited, 5 * time.Second},
		{429, "", "1s", actions.RateLimited, time.Second},
		{429, "", "0s", actions.RateLimited, 0},
		{429, "", "-1s", actions.RateLimited, 0},
		{429, "", "99h", actions.RateLimited, httpaction.MaxRetryAfter},
		{503, "busy", "", actions.RateLimited, time.Minute},
		{503, "busy", "2s", actions.RateLimited, 2 * time.Second},
		{409, "", "", actions.InProgress, 0},
		{202, "", "3s", actions.Accepted, 3 * time.Second},
	} {
		x := answered(test.status, jsonType, `{"id":"r1"}`)
		x.Header.Set("X-Code", test.code)
		x.Header.Set("X-Wait", test.wait)
		if got := c.Classify(x); got.Kind != test.kind || got.RetryAfter != test.after {
			t.Errorf("%+v: %s after %s", test, got.Kind, got.RetryAfter)
		}
	}
	for name, rules := range map[string]httpaction.Rules{
		"two readers":       {Error: httpaction.JSONError("a", "b"), Failure: func(httpaction.Exchange) (string, string) { return "", "" }},
		"negative wait":     {Wait: -1},
		"negative in rules": {Overrides: []httpaction.Rule{{Statuses: []int{409}, Kind: actions.InProgress, Wait: -1}}},
	} {
		rules.Receipt = httpaction.JSONReceipt("id")
		if _, err := httpaction.NewClassifier(rules); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
