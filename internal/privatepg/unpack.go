package privatepg

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxUnpacked bounds what one tarball may write; the pinned builds are some
// 60 MB.
const maxUnpacked = 1 << 30

// unpack writes the folder package/native of an npm tarball to dir, which must
// not exist, and makes the symbolic links that npm tarballs cannot hold.
//
// Everything is written through an os.Root: no name in the tarball, and no
// link made here, can lead out of dir.
func unpack(tarball, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	file, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer file.Close()
	zr, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	// The reader ends early at the limit, which the tar reader then reports.
	tr := tar.NewReader(io.LimitReader(zr, maxUnpacked))
	for {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, header, tr); err != nil {
			return fmt.Errorf("entry %q: %w", header.Name, err)
		}
	}
	return linkLibraries(root)
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	if !filepath.IsLocal(header.Name) {
		return errors.New("leads out of the folder")
	}
	name, ok := strings.CutPrefix(path.Clean(header.Name), "package/native/")
	if !ok {
		return nil // the package's own scripts and papers
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return makeDirs(root, name)
	case tar.TypeReg:
	default:
		return fmt.Errorf("is of type %q; an npm package holds only files and folders", header.Typeflag)
	}
	if err := makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if header.Mode&0o100 != 0 {
		mode = 0o755
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chmod(mode), file.Close())
}

// makeDirs makes a folder and its parents, readable by the account that will
// run the programs whatever the umask is.
func makeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if _, err := root.Stat(name); err == nil {
		return nil
	}
	if err := makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// linkLibraries makes the links listed in pg-symlinks.json, both sides named
// from the package's root ("native/lib/libpq.so.5.17").
func linkLibraries(root *os.Root) error {
	const list = "pg-symlinks.json"
	text, err := root.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a build without versioned libraries has none
	}
	if err != nil {
		return err
	}
	var links []struct {
		Source string `json:"source"`
		Target string `json:"target"`
	}
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	for _, link := range links {
		source, okSource := strings.CutPrefix(path.Clean(link.Source), "native/")
		target, okTarget := strings.CutPrefix(path.Clean(link.Target), "native/")
		if !okSource || !okTarget {
			return fmt.Errorf("%s: link %q to %q leads out of the folder", list, link.Target, link.Source)
		}
		to, err := filepath.Rel(path.Dir(target), source)
		if err != nil {
			return fmt.Errorf("%s: %w", list, err)
		}
		if err := root.Symlink(to, target); err != nil {
			return fmt.Errorf("%s: %w", list, err)
		}
		// The root follows links but never out of it: this finds a link that
		// leads nowhere.
		if _, err := root.Stat(target); err != nil {
			return fmt.Errorf("%s: link %q: %w", list, link.Target, err)
		}
	}
	return nil
}
