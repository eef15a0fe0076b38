package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/onceward/onceward/internal/privatepg"
)

// disk is a small file system of one server.
type disk struct {
	mount string
	data  string // where the server's data folder is; "" is not here
	wal   string // where its write-ahead log is; "" is in the data folder
}

// newDisk mounts a disk for the server whose folder is dir.
func newDisk(dir string, o Options) (*disk, error) {
	if o.DiskMB == 0 {
		return nil, nil
	}
	d := &disk{mount: dir + ".disk"}
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		return nil, fmt.Errorf("pgcluster: %w", err)
	}
	if err := mountMemory(d.mount, o.DiskMB); err != nil {
		return nil, fmt.Errorf("pgcluster: mounting a file system of %d MB, which needs Linux and root: %w", o.DiskMB, err)
	}
	folders := []string{}
	if o.Disk == WAL {
		d.wal = filepath.Join(d.mount, "wal")
	} else {
		d.data, d.wal = filepath.Join(d.mount, "data"), dir+".wal"
		folders = append(folders, d.data)
	}
	for _, folder := range append(folders, d.wal) {
		if err := errors.Join(os.Mkdir(folder, 0o700), privatepg.Own(folder)); err != nil {
			return nil, errors.Join(fmt.Errorf("pgcluster: %w", err), d.close())
		}
	}
	return d, nil
}

// take moves what belongs on the disk there, from a server that does not run. The
// folders keep their names by way of links.
func (d *disk) take(ctx context.Context, data string) error {
	moves := [][2]string{{filepath.Join(data, "pg_wal"), d.wal}}
	if d.data != "" {
		moves = append(moves, [2]string{data, d.data})
	}
	for _, m := range moves {
		from, to := m[0], m[1]
		// Across file systems with owners and modes is what cp is good at.
		out, err := exec.CommandContext(ctx, "cp", "-a", from+"/.", to).CombinedOutput() //nolint:gosec // folders of ours
		if err != nil {
			return fmt.Errorf("pgcluster: moving %s: %w: %s", from, err, out)
		}
		if err := errors.Join(os.RemoveAll(from), os.Symlink(to, from)); err != nil {
			return fmt.Errorf("pgcluster: moving %s: %w", from, err)
		}
	}
	return nil
}

func (d *disk) filler() string { return filepath.Join(d.mount, "filler") }

// fill takes all room that is left.
func (d *disk) fill() error {
	file, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("pgcluster: %w", err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 1 << 10, 1} {
		piece := make([]byte, size)
		for err = nil; err == nil; {
			_, err = file.Write(piece)
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			return fmt.Errorf("pgcluster: filling the disk: %w", err)
		}
	}
	return nil
}

func (d *disk) free() error {
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("pgcluster: %w", err)
	}
	return nil
}

func (d *disk) close() error {
	if d == nil {
		return nil
	}
	if err := unmount(d.mount); err != nil {
		return fmt.Errorf("pgcluster: unmounting %s: %w", d.mount, err)
	}
	return os.Remove(d.mount)
}
