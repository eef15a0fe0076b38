package proof

import (
	"strings"
	"testing"
	"time"
)

// TestRunRefuses: what cannot be run is told before a database is touched.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options Options
		want    string
	}{
		"no database":       {Options{}, "no database"},
		"too patient":       {Options{OwnerURL: "x", Patience: 2 * time.Minute}, "patience"},
		"negative patience": {Options{OwnerURL: "x", Patience: -1}, "patience"},
		"negative parallel": {Options{OwnerURL: "x", Parallel: -1}, "parallel"},
		"no Postgres":       {Options{OwnerURL: "postgres://127.0.0.1:1/x?sslmode=disable"}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Run(t.Context(), tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
