package declared

import (
	"testing"
	"time"
)

// Every form of a time to wait. What is no such time is passed over.
//
// PROVIDERS requirement 25
func TestSignalForms(t *testing.T) {
	t.Parallel()
	answered := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC) // 784111777
	const none = time.Duration(-1)
	for _, test := range []struct {
		as, text string
		want     time.Duration
	}{
		{"", "120", 2 * time.Minute},
		{"", "Sun, 06 Nov 1994 08:50:37 GMT", time.Minute},
		{"", "1.5", none},
		{"retry_after", "-1", none},
		{"seconds", "1.2", 2 * time.Second},
		{"seconds", "2.0", 2 * time.Second},
		{"seconds", "0", 0},
		{"seconds", "-1", none},
		{"seconds", "+1", none},
		{"seconds", "1e3", none},
		{"seconds", "1.", none},
		{"seconds", ".5", none},
		{"seconds", "1.2.3", none},
		{"seconds", "", none},
		{"seconds", "soon", none},
		{"seconds", "99999999999", none},
		{"seconds", "99999999999999999999999", none},
		{"milliseconds", "1500", 1500 * time.Millisecond},
		{"milliseconds", "1500.5", 1501 * time.Millisecond},
		{"epoch_seconds", "784111787", 10 * time.Second},
		{"epoch_seconds", "784111786.5", 10 * time.Second},
		{"epoch_seconds", "784111000", 0},
		{"epoch_seconds", "784111787000", none}, // milliseconds
		{"epoch_seconds", "-784111787", none},
		{"epoch_milliseconds", "784111787250", 10250 * time.Millisecond},
		{"epoch_milliseconds", "784111787", 0},
		{"epoch_milliseconds", "99999999999999999999", none},
		{"rfc3339", "1994-11-06T08:50:37Z", time.Minute},
		{"rfc3339", "1994-11-06T09:50:37.5+01:00", time.Minute + 500*time.Millisecond},
		{"rfc3339", "1994-11-06", none},
		{"rfc3339", "9999-11-06T08:50:37Z", none},
	} {
		parse, known := signalForm(test.as)
		if !known {
			t.Fatal(test.as)
		}
		got, ok := parse(test.text, answered)
		if !ok {
			got = none
		}
		if got != test.want {
			t.Errorf("%s %q: got %s, want %s", test.as, test.text, got, test.want)
		}
	}
	if _, known := signalForm("minutes"); known {
		t.Error("minutes are known")
	}
}

func FuzzSignalForms(f *testing.F) {
	f.Add("epoch_seconds", "784111787", int64(784111777))
	f.Add("seconds", "1.5", int64(0))
	f.Add("rfc3339", "1994-11-06T08:50:37Z", int64(-1))
	f.Fuzz(func(t *testing.T, as, text string, now int64) {
		parse, known := signalForm(as)
		if !known {
			return
		}
		if got, ok := parse(text, time.Unix(now, 0)); got < 0 || got > maxAhead+time.Second || !ok && got != 0 {
			t.Errorf("%s %q: %s, %t", as, text, got, ok)
		}
	})
}
