package logs

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// Delay is how long a line waits at most to be written.
	Delay = 50 * time.Millisecond
	// maxHeld bounds what is held: more is written without waiting.
	maxHeld = 64 << 10
)

// New makes a logger on what form makes of a writer, such as
// [slog.NewJSONHandler]. flush writes out what is held.
func New(out io.Writer, form func(io.Writer) slog.Handler) (log *slog.Logger, flush func()) {
	w := &writer{out: out}
	return slog.New(handler{form(w), w}), w.flush
}

// handler writes out at once what should be seen at once.
type handler struct {
	slog.Handler
	w *writer
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.w.flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.w}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.w}
}

// writer holds lines and writes them together, in their order. It is safe for
// concurrent use.
type writer struct {
	out io.Writer

	writing sync.Mutex // held while out is written to; taken before mu
	mu      sync.Mutex
	held    []byte
	spare   []byte // the other of two buffers that take turns
}

// Write implements io.Writer. It keeps nothing of p, and fails never: what
// cannot be logged cannot be logged about.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	first := len(w.held) == 0
	w.held = append(w.held, p...)
	full := len(w.held) >= maxHeld
	w.mu.Unlock()
	switch {
	case full:
		w.flush()
	case first:
		time.AfterFunc(Delay, w.flush)
	}
	return len(p), nil
}

// flush returns when everything that was held has been written.
func (w *writer) flush() {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	lines := w.held
	w.held, w.spare = w.spare[:0], nil
	w.mu.Unlock()
	if len(lines) > 0 {
		_, _ = w.out.Write(lines)
	}
	w.mu.Lock()
	w.spare = lines
	w.mu.Unlock()
}
