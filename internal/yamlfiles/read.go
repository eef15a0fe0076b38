package yamlfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/internal/strictyaml"
)

// Read reads files and folders (every .yaml and .yml below them, hidden ones left
// out) by name. Of a file that is too long it returns so much that its reader
// sees it. The errors are those of the file system.
func Read(paths ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if p = filepath.Clean(p); !info.IsDir() {
			if files[p], err = readBounded(os.DirFS(filepath.Dir(p)), filepath.Base(p)); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
			continue
		}
		found, err := readTree(os.DirFS(p))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for name, data := range found {
			files[filepath.Join(p, filepath.FromSlash(name))] = data
		}
	}
	return files, nil
}

// ReadFS is Read for the named folders and files of a file system.
func ReadFS(fsys fs.FS, names ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range names {
		info, err := fs.Stat(fsys, name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if files[name], err = readBounded(fsys, name); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		sub, err := fs.Sub(fsys, name)
		if err != nil {
			return nil, err
		}
		found, err := readTree(sub)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for below, data := range found {
			files[path.Join(name, below)] = data
		}
	}
	return files, nil
}

func readTree(fsys fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || path.Ext(name) != ".yaml" && path.Ext(name) != ".yml":
			return nil
		}
		data, err := readBounded(fsys, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name] = data
		return nil
	})
	return files, err
}

func readBounded(fsys fs.FS, name string) ([]byte, error) {
	f, err := openRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxFileBytes+1)) // one more is a fault
}

// openRegular opens a file. To open a pipe would wait until somebody writes to it.
func openRegular(fsys fs.FS, name string) (fs.File, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file")
	}
	return fsys.Open(name)
}
