package providers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/actions/definition"
)

// digest tells whether files have changed: it is of their names and contents, so
// that it works for mounted configuration, whose times and links say little.
type digest [sha256.Size]byte

func digestOf(paths []string) (digest, error) {
	h := sha256.New()
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return digest{}, err
		}
		dir, name := root, "."
		if !info.IsDir() {
			dir, name = filepath.Split(root)
		}
		if err := addFiles(h, os.DirFS(cmp.Or(dir, ".")), name); err != nil {
			return digest{}, err
		}
	}
	return digest(h.Sum(nil)), nil
}

// addFiles adds what definition.Load reads: a file, or all files below a folder.
func addFiles(h hash.Hash, fsys fs.FS, root string) error {
	return fs.WalkDir(fsys, root, func(path string, entry fs.DirEntry, err error) error {
		hidden := path != root && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir(), hidden, path != root && filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml":
			return nil
		}
		f, err := fsys.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, _ = io.WriteString(h, path+"\x00") // a hash takes everything
		_, err = io.Copy(h, f)
		return err
	})
}

// Watch looks at the files every Interval until ctx ends, and takes changes over.
// A change is taken when two looks in a row see the same, so that a file that is
// being written is not read in its middle. A change that is refused is logged with
// its place, and everything stays as it was; it is tried again at every look, since
// what was missing may come (a secret's file, a database), and logged again when the
// reason is another. SIGHUP takes over at once what there is, and asks the
// AdapterServices anew.
func (p *Providers) Watch(ctx context.Context) {
	if len(p.Paths) == 0 {
		return
	}
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	last, refused := view{digest: p.taken()}, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			refused = p.takeOver(ctx, "")
			continue
		case <-tick.C:
		}
		now := look(p.Paths)
		switch {
		case now != last: // perhaps in the middle of a change
			last = now
		case now != view{digest: p.taken()}:
			refused = p.takeOver(ctx, refused)
		case refused != "":
			refused = ""
			p.Log.Info("definitions changed back: they are what is in use")
		}
	}
}

// view is what a look at the files sees.
type view struct {
	digest digest
	fault  string // why they cannot be read
}

func look(paths []string) view {
	d, err := digestOf(paths)
	if err != nil {
		return view{fault: err.Error()}
	}
	return view{digest: d}
}

// taken is the digest of what is in use.
func (p *Providers) taken() digest {
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
		p.logChanges(before, p.definitions())
		return ""
	case ctx.Err() != nil || err.Error() == known:
		return known
	}
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
