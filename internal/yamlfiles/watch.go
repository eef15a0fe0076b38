package yamlfiles

import (
	"cmp"
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/internal/strictyaml"
)

// Digest tells whether files have changed: it is of their names and contents, so
// that it works for mounted configuration, whose times and links say little.
type Digest [sha256.Size]byte

// DigestOf reads the files that Read reads.
func DigestOf(paths ...string) (Digest, error) {
	h := sha256.New()
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return Digest{}, err
		}
		dir, name := root, "."
		if !info.IsDir() {
			dir, name = filepath.Split(root)
		}
		if err := addFiles(h, os.DirFS(cmp.Or(dir, ".")), name); err != nil {
			return Digest{}, err
		}
	}
	return Digest(h.Sum(nil)), nil
}

// addFiles adds what Read reads: a file, or all files below a folder.
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
		f, err := openRegular(fsys, path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, _ = io.WriteString(h, path+"\x00")                             // a hash takes everything
		_, err = io.Copy(h, io.LimitReader(f, strictyaml.MaxFileBytes+1)) // what is longer is refused
		return err
	})
}

// Watching says what to do about changes.
type Watching struct {
	Paths    []string
	Interval time.Duration // between two looks; above zero
	// Taken returns the digest of what is in use.
	Taken func() Digest
	// TakeOver takes over what there is now. It gets the reason why that was
	// refused the last time, which need not be said again, and returns that of now;
	// empty: it was not refused.
	TakeOver func(ctx context.Context, refused string) string
	// Back is told that a change that was refused has gone.
	Back func()
}

// Watch looks at the files every Interval until ctx ends. A change is taken over
// when two looks in a row see the same, so that a file that is being written is
// not read in its middle; one that is refused is tried again at every look. SIGHUP
// takes over at once. Without paths it returns at once.
func Watch(ctx context.Context, w Watching) {
	if len(w.Paths) == 0 {
		return
	}
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	last, refused := view{digest: w.Taken()}, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			refused = w.TakeOver(ctx, "")
			continue
		case <-tick.C:
		}
		now := look(w.Paths)
		switch {
		case now != last: // perhaps in the middle of a change
			last = now
		case now != view{digest: w.Taken()}:
			refused = w.TakeOver(ctx, refused)
		case refused != "":
			refused = ""
			w.Back()
		}
	}
}

// view is what a look at the files sees.
type view struct {
	digest Digest
	fault  string // why they cannot be read
}

func look(paths []string) view {
	d, err := DigestOf(paths...)
	if err != nil {
		return view{fault: err.Error()}
	}
	return view{digest: d}
}
