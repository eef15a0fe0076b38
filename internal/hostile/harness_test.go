package hostile

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(apptest.Main(func() int { return pgtest.Main(m) }))
}

// faults is a log handler that keeps what is an ERROR: a fault of ours, which no
// caller should be able to bring about. It is safe for concurrent use.
type faults struct {
	slog.Handler
	mu   sync.Mutex
	seen []string
}

func (*faults) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (f *faults) WithAttrs([]slog.Attr) slog.Handler         { return f }
func (f *faults) WithGroup(string) slog.Handler              { return f }
func (f *faults) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { b.WriteString(" " + a.String()); return true })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, b.String())
	return nil
}

// take returns what came since it was called last.
func (f *faults) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}
