package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeNew makes a file that must not exist yet.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("secrets: %s exists already and is not overwritten", path)
	}
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	return fill(f, data)
}

// replace puts data in the place of the file at path, or makes it. Whoever
// reads path, and whoever starts after a crash, finds all of the old content or
// all of the new.
func replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	if err := fill(f, data); err != nil {
		os.Remove(f.Name())
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("secrets: %w", err)
	}
	return syncDir(dir)
}

func fill(f *os.File, data []byte) error {
	if _, err := f.Write(data); err != nil {
		return errors.Join(fmt.Errorf("secrets: %w", err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("secrets: %w", err), f.Close())
	}
	return f.Close()
}

// syncDir makes a new name in dir outlive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w (make a set with: onceward secrets create DIR)", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("secrets: %s can be read by others (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	return data, nil
}
