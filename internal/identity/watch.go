package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceward/onceward/actions/definition"
)

// watcher takes files over when what they hold changes. A change is taken when
// two looks in a row see the same, so that files that are being written are not
// read in their middle; SIGHUP takes at once what there is. What is refused is
// logged, once, and everything stays as it was.
type watcher struct {
	what     string // for the log
	files    func() []string
	take     func() error
	log      *slog.Logger
	interval time.Duration
}

// run looks every interval until ctx ends. begun is what was in use when it
// began, as looked returned it before that was read.
func (w *watcher) run(ctx context.Context, begun [sha256.Size]byte) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	settled, last := begun, begun
	for {
		now := false
		select {
		case <-ctx.Done():
			return
		case <-asked:
			now = true
		case <-tick.C:
		}
		seen := looked(w.files())
		if now || seen == last && seen != settled {
			w.takeOver()
			settled = seen
		}
		last = seen
	}
}

func (w *watcher) takeOver() {
	err := w.take()
	var faults *definition.FaultsError
	switch {
	case err == nil:
		w.log.Info(w.what + " changed: taken over")
	case errors.As(err, &faults):
		for _, f := range faults.Faults {
			w.log.Error(w.what+" changed: refused, what was in use stays", "place", f.Place.String(), "field", f.Field, "problem", f.Problem)
		}
	default:
		w.log.Error(w.what+" changed: refused, what was in use stays", "error", err)
	}
}

// looked is what files hold: of their contents, so that it works for mounted
// secrets, whose times and links say little.
func looked(files []string) [sha256.Size]byte {
	h := sha256.New()
	for _, name := range files {
		data, err := readBounded(name)
		if err != nil {
			data = []byte(err.Error())
		}
		part := sha256.Sum256(data)
		_, _ = h.Write(part[:]) // a hash takes everything
	}
	return [sha256.Size]byte(h.Sum(nil))
}
