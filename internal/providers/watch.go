package providers

import (
	"context"
	"errors"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/internal/yamlfiles"
)

// Watch looks at the files every Interval until ctx ends, and takes changes over.
// A change is taken when two looks in a row see the same, so that a file that is
// being written is not read in its middle. A change that is refused is logged with
// its place, and everything stays as it was; it is tried again at every look, since
// what was missing may come (a secret's file, a database), and logged again when the
// reason is another. SIGHUP takes over at once what there is, and asks the
// AdapterServices anew.
func (p *Providers) Watch(ctx context.Context) {
	yamlfiles.Watch(ctx, yamlfiles.Watching{
		Paths: p.Paths, Interval: p.Interval, Taken: p.taken, TakeOver: p.takeOver,
		Back: func() {
			p.Refused(false)
			p.Log.Info("definitions changed back: they are what is in use")
		},
	})
}

// taken is the digest of what is in use.
func (p *Providers) taken() yamlfiles.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded.digest
}

// takeOver reloads, and says what came of it. It returns the reason of a refusal; the
// one that is known already is not said again.
func (p *Providers) takeOver(ctx context.Context, known string) (refused string) {
	before := p.definitions()
	err := p.Reload(ctx)
	switch {
	case err == nil:
		p.Refused(false)
		p.logChanges(before, p.definitions())
		return ""
	case ctx.Err() != nil || err.Error() == known:
		return known
	}
	p.Refused(true)
	var faults *definition.FaultsError
	if !errors.As(err, &faults) {
		p.Log.Error("definitions changed: refused, nothing was taken over", "error", err)
		return err.Error()
	}
	for _, f := range faults.Faults {
		p.Log.Error("definitions changed: refused, nothing was taken over", "place", f.Place.String(), "field", f.Field, "problem", f.Problem)
	}
	return err.Error()
}
