package catalogue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/deploy/catalogue"
)

func TestRead(t *testing.T) {
	c, err := catalogue.Read(strings.NewReader("# Metrics\n\n| metric | type | labels | counts |\n|---|---|---|---|\n" +
		"| `onceward_a_total` | counter | tenant, reason | things: `one`, `two` |\n| `onceward_b_seconds` | histogram | | time |\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, ok := c.Find("onceward_a_total")
	if !ok || a.Type != "counter" || !slices.Equal(a.Labels, []string{"tenant", "reason"}) || !slices.Equal(a.Values, []string{"one", "two"}) {
		t.Errorf("got %+v, %t", a, ok)
	}
	for series, want := range map[string]bool{
		"onceward_b_seconds_bucket": true, "onceward_b_seconds_sum": true, "onceward_b_seconds_count": true,
		"onceward_b_seconds": false, "onceward_a_total_sum": false, "onceward_c": false, "onceward_a": false,
	} {
		if _, ok := c.Find(series); ok != want {
			t.Errorf("%s: found %t, want %t", series, ok, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	row := "| `onceward_a` | gauge | | x |\n"
	for name, page := range map[string]string{
		"no rows": "# Metrics\n", "a column less": "| `onceward_a` | gauge | x |\n", "a type": "| `onceward_a` | meter | | x |\n", "twice": row + row,
	} {
		if _, err := catalogue.Read(strings.NewReader(page)); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
