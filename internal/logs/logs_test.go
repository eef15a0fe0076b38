package logs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// output is what was written, in how many writes.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	return o.text.Write(p)
}

func (o *output) seen() (lines, writes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.text.String(), "\n"), o.writes
}

func text(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }

func TestLinesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		log, _ := New(&out, text)
		for i := range 10 {
			log.Info("answered", "n", i)
		}
		if lines, _ := out.seen(); lines != 0 {
			t.Errorf("%d lines did not wait", lines)
		}
		time.Sleep(Delay)
		synctest.Wait()
		if lines, writes := out.seen(); lines != 10 || writes != 1 {
			t.Errorf("%d lines in %d writes", lines, writes)
		}
		log.Info("later")
		time.Sleep(Delay)
		synctest.Wait()
		if lines, _ := out.seen(); lines != 11 {
			t.Errorf("%d lines", lines)
		}
	})
}

func TestWarningsAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, level := range []slog.Level{slog.LevelWarn, slog.LevelError} {
			var out output
			log, flush := New(&out, text)
			log = log.With("tenant", "acme").WithGroup("g")
			log.Info("before")
			log.Log(t.Context(), level, "look here")
			if lines, _ := out.seen(); lines != 2 || !strings.Contains(out.text.String(), "tenant=acme") {
				t.Errorf("%s: %q", level, out.text.String())
			}
			log.Info("after")
			flush()
			if lines, _ := out.seen(); lines != 3 {
				t.Errorf("%d lines after the end", lines)
			}
		}
	})
}

func TestNoLineIsLostOrTornOrOutOfOrder(t *testing.T) {
	var out output
	log, flush := New(&out, text)
	var writers sync.WaitGroup
	const each = 2000
	for w := range 8 {
		writers.Go(func() {
			for i := range each {
				log.Info("answered", "writer", w, "n", i, "filler", strings.Repeat("x", i%100))
			}
		})
	}
	writers.Wait()
	flush()
	next := [8]int{}
	for line := range strings.Lines(out.text.String()) {
		var w, n int
		_, rest, _ := strings.Cut(line, "writer=")
		if _, err := fmt.Sscanf(rest, "%d n=%d", &w, &n); err != nil || n != next[w] {
			t.Fatalf("line %q, want number %d", line, next[w])
		}
		next[w]++
	}
	for w, n := range next {
		if n != each {
			t.Errorf("%d lines of writer %d", n, w)
		}
	}
	if _, writes := out.seen(); writes > each {
		t.Errorf("%d writes", writes)
	}
}

func TestMuchIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		log, flush := New(&out, text)
		log.Info(strings.Repeat("x", maxHeld))
		if lines, _ := out.seen(); lines != 1 {
			t.Errorf("%d lines", lines)
		}
		flush()
	})
}

func BenchmarkInfo(b *testing.B) {
	log, _ := New(io.Discard, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(b.Context(), slog.LevelInfo, "request answered", slog.String("tenant", "acme"), slog.String("state", "succeeded"))
	}
}
