package campaign

import (
	"context"
	_ "embed"
	"slices"
	"time"

	"github.com/onceward/onceward/chaos/history"
)

//go:embed sql/size.sql
var sizeSQL string

// Look is how replicas and ledger do at one moment of a soak.
type Look struct {
	Seconds    float64 `json:"seconds"`
	RSSBytes   int64   `json:"rss_bytes"` // of all replicas
	HeapBytes  uint64  `json:"heap_bytes"`
	Goroutines int     `json:"goroutines"`
	// Of the database.
	Connections int   `json:"connections"`
	TableBytes  int64 `json:"table_bytes"`
	IndexBytes  int64 `json:"index_bytes"`
	DeadRows    int64 `json:"dead_rows"`
	LiveRows    int64 `json:"live_rows"`
	Open        int   `json:"open"`
	Operations  int   `json:"operations"`
	// BytesPerOperation is what tables and indexes have for each: it grows with bloat.
	BytesPerOperation int64 `json:"bytes_per_operation"`
	// Of the requests that were answered since the last look, in milliseconds.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// watch looks every now and then until ctx ends. What cannot be asked at a moment, since
// it is being broken, stays zero.
func (w *world) watch(ctx context.Context, c *callers) []Look {
	var looks []Look
	seen := 0
	every(ctx, w.LookEvery, func() {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		look := w.look(asking)
		if ctx.Err() != nil {
			return // the end came in between
		}
		look.Seconds = seconds(time.Since(c.began))
		calls := c.log.Calls()
		look.P50, look.P99 = latencies(calls[seen:])
		seen = len(calls)
		looks = append(looks, look)
		w.Log.InfoContext(ctx, "soak", "seconds", int(look.Seconds), "rss_mb", look.RSSBytes>>20, "goroutines", look.Goroutines,
			"connections", look.Connections, "table_mb", look.TableBytes>>20, "index_mb", look.IndexBytes>>20, "dead_rows", look.DeadRows,
			"operations", look.Operations, "open", look.Open, "p50_ms", look.P50, "p99_ms", look.P99)
	})
	return looks
}

func (w *world) look(ctx context.Context) Look {
	var l Look
	for _, m := range w.members {
		p := m.process()
		if p == nil {
			continue
		}
		if s, err := p.Stats(ctx); err == nil {
			l.RSSBytes, l.HeapBytes, l.Goroutines = l.RSSBytes+s.RSSBytes, l.HeapBytes+s.HeapBytes, l.Goroutines+s.Goroutines
		}
	}
	err := w.pool.QueryRow(ctx, sizeSQL).Scan(&l.TableBytes, &l.IndexBytes, &l.DeadRows, &l.LiveRows, &l.Connections, &l.Open, &l.Operations)
	if err == nil && l.Operations > 0 {
		l.BytesPerOperation = (l.TableBytes + l.IndexBytes) / int64(l.Operations)
	}
	return l
}

// latencies are those of requests that were answered.
func latencies(calls []history.Call) (p50, p99 float64) {
	var took []time.Duration
	for _, c := range calls {
		if c.Kind == history.Request && c.Answer == history.Told {
			took = append(took, c.Returned-c.Invoked)
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Drift is what a quantity was in the first quarter of a soak and in the last one, on
// average.
type Drift struct {
	First float64 `json:"first_quarter"`
	Last  float64 `json:"last_quarter"`
	// Ratio is Last by First; 0 where First is nothing.
	Ratio float64 `json:"ratio"`
}

// driftOf holds the last quarter of the looks against the first. Looks at which a
// quantity could not be asked do not count.
func driftOf(looks []Look) map[string]Drift {
	quarter := len(looks) / 4
	if quarter == 0 {
		return nil
	}
	drifts := map[string]Drift{}
	for name, of := range map[string]func(Look) float64{
		"rss_bytes":           func(l Look) float64 { return float64(l.RSSBytes) },
		"heap_bytes":          func(l Look) float64 { return float64(l.HeapBytes) },
		"goroutines":          func(l Look) float64 { return float64(l.Goroutines) },
		"connections":         func(l Look) float64 { return float64(l.Connections) },
		"dead_rows":           func(l Look) float64 { return float64(l.DeadRows) },
		"bytes_per_operation": func(l Look) float64 { return float64(l.BytesPerOperation) },
		"open":                func(l Look) float64 { return float64(l.Open) },
		"p50_ms":              func(l Look) float64 { return l.P50 },
		"p99_ms":              func(l Look) float64 { return l.P99 },
	} {
		d := Drift{First: average(looks[:quarter], of), Last: average(looks[len(looks)-quarter:], of)}
		if d.First > 0 {
			d.Ratio = d.Last / d.First
		}
		drifts[name] = d
	}
	return drifts
}

func average(looks []Look, of func(Look) float64) float64 {
	sum, n := 0.0, 0
	for _, l := range looks {
		if v := of(l); v > 0 {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
