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
// being written is not read in its middle. A change with a fault is logged with
// its place, once, and everything stays as it was. SIGHUP takes over at once what
// there is, and asks the AdapterServices anew.
func (p *Providers) Watch(ctx context.Context) {
	if len(p.Paths) == 0 {
		return
	}
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	p.mu.Lock()
	settled, last := p.loaded.digest, p.loaded.digest
	p.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			p.takeOver(ctx)
			continue
		case <-tick.C:
		}
		now, err := digestOf(p.Paths)
		if err != nil {
			continue // a file that is just being replaced; if it stays away, the next change says so
		}
		if now != last || now == settled {
			last = now
			continue
		}
		settled = now
		p.takeOver(ctx)
	}
}

// takeOver reloads, and says what came of it.
func (p *Providers) takeOver(ctx context.Context) {
	err := p.Reload(ctx)
	var faults *definition.FaultsError
	switch {
	case err == nil:
		p.Log.Info("definitions changed: taken over", "action_types", len(p.registry.All()))
	case errors.As(err, &faults):
		for _, f := range faults.Faults {
			p.Log.Error("definitions changed: refused, nothing was taken over", "place", f.Place.String(), "field", f.Field, "problem", f.Problem)
		}
	case ctx.Err() == nil:
		p.Log.Error("definitions changed: refused, nothing was taken over", "error", err)
	}
}
