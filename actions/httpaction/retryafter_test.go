package httpaction_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// Report R53: seconds are seconds, dates count from the response.
func TestParseRetryAfter(t *testing.T) {
	date := time.Date(1994, time.November, 6, 8, 49, 7, 0, time.UTC)
	for _, test := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"120", 2 * time.Minute, true},
		{" 120\t", 2 * time.Minute, true},
		{"0", 0, true},
		{"007", 7 * time.Second, true},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 30 * time.Second, true},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 30 * time.Second, true},
		{"Sun Nov  6 08:49:37 1994", 30 * time.Second, true},
		{"Sun, 06 Nov 1994 08:49:06 GMT", 0, true}, // passed
		{"Tue, 06 Nov 2094 08:49:37 GMT", httpaction.MaxRetryAfter, true},
		{"86401", httpaction.MaxRetryAfter, true},
		{"2147483648", httpaction.MaxRetryAfter, true},
		{value: "2147483649"}, {value: "99999999999999999999"}, {value: "-1"}, {value: "-0"}, {value: "+1"}, {value: "1.5"},
		{value: "1e3"}, {value: "0x10"}, {value: "120s"}, {value: "1 2"}, {value: ""}, {value: "soon"}, {value: "１２"},
		{value: "Sun, 06 Nov 1994 08:49:37 CET"}, {value: "1994-11-06T08:49:37Z"},
	} {
		got, ok := httpaction.ParseRetryAfter(test.value, date)
		if got != test.want || ok != test.ok {
			t.Errorf("%q: %s, %t; want %s, %t", test.value, got, ok, test.want, test.ok)
		}
	}
}

// The provider's clock may differ from ours; its dates are for its own.
func TestRetryAfterCountsFromTheResponse(t *testing.T) {
	x := answered(429, jsonType, `{}`)
	x.Header.Set("Retry-After", "Sun, 06 Nov 1994 08:50:37 GMT")
	x.ReceivedAt = time.Date(1994, time.November, 6, 8, 50, 7, 0, time.UTC)
	c := classifier(t)
	if got := c.Classify(x); got.Kind != actions.RateLimited || got.RetryAfter != 30*time.Second {
		t.Errorf("without Date: %s after %s", got.Kind, got.RetryAfter)
	}
	x.Header.Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
	if got := c.Classify(x); got.RetryAfter != time.Minute {
		t.Errorf("with Date: after %s", got.RetryAfter)
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{"120", "Sun, 06 Nov 1994 08:49:37 GMT", "-1", "99999999999999999999", "1.5"} {
		f.Add(seed, int64(784111777))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		got, ok := httpaction.ParseRetryAfter(value, time.Unix(unix, 0))
		if got < 0 || got > httpaction.MaxRetryAfter || !ok && got != 0 {
			t.Errorf("%q: %s, %t", value, got, ok)
		}
	})
}
