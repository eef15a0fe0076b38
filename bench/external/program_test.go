package external

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/bench/contest"
)

func TestWhatProgramsPrint(t *testing.T) {
	const good = `{"name":"temporal","kind":"action","c":64,"ops":123,"seconds":2.0,"p50_us":10,"p99_us":20}`
	for _, c := range []struct {
		name, output string
		recorded     int
		fails        string // in the error; empty: none
	}{
		{"measurements", good + "\n\n" + strings.Replace(good, "action", "duplicate", 1) + "\n", 2, ""},
		{"left out by itself", `{"name":"temporal","skipped":"no server"}`, 0, "no server"},
		{"a part left out", good + "\n" + `{"name":"temporal-activity","skipped":"too slow"}`, 1, ""},
		{"nothing", "", 0, "no measurement"},
		{"no rate", `{"name":"temporal","kind":"action","c":64}`, 0, "measures nothing"},
		{"no JSON", "hello", 0, "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorded := 0
			p := &program{name: "temporal", skip: func(string, string) {}}
			err := p.read(contest.Round{Record: func(contest.Measurement) { recorded++ }}, []byte(c.output))
			if recorded != c.recorded {
				t.Errorf("%d recorded, want %d", recorded, c.recorded)
			}
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want one with %q", err, c.fails)
			}
		})
	}
}
