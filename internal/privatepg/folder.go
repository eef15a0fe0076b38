package privatepg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrInUse means that another process uses the folder.
var ErrInUse = errors.New("the folder is in use")

// folder is Options.Dir and what is in it.
type folder struct {
	dir  string
	acct *account
	lock *os.File
}

func (f *folder) data() string         { return filepath.Join(f.dir, "data") }
func (f *folder) passwordFile() string { return filepath.Join(f.dir, "password") }
func (f *folder) logFile() string      { return filepath.Join(f.dir, "server.log") }
func (f *folder) lockFile() string     { return filepath.Join(f.dir, "lock") }

// newClusterPrefix begins the names of clusters that initdb is still making.
const newClusterPrefix = "data.new-"

// openFolder makes or checks the folder and takes its lock. The caller must
// close what it returns.
func openFolder(ctx context.Context, dir string, acct *account) (*folder, error) {
	f := &folder{dir: dir, acct: acct}
	if err := f.prepare(ctx); err != nil {
		return nil, fmt.Errorf("privatepg: %w", err)
	}
	if err := f.takeLock(); err != nil {
		return nil, fmt.Errorf("privatepg: %w", err)
	}
	return f, nil
}

// close gives the lock back, and not only our hold on it: a process that is just
// being started has the file for a moment, too.
func (f *folder) close() error {
	return errors.Join(unlockFile(f.lock), f.lock.Close())
}

func (f *folder) prepare(ctx context.Context) error {
	if err := f.looksOurs(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.dir), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o700)
	if f.acct != nil {
		mode = 0o711 // enough to reach data below it, not to list it
	}
	if err := os.Mkdir(f.dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if f.acct == nil {
		return nil
	}
	if err := os.Chmod(f.dir, mode); err != nil { // Mkdir's is cut by the umask
		return err
	}
	return f.acct.reaches(ctx, f.dir)
}

// looksOurs refuses a folder that holds something else, before anything is
// written to it.
func (f *folder) looksOurs() error {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var strange []string
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == "PG_VERSION":
			return fmt.Errorf("folder %s is itself the data folder of a Postgres; name another folder (the data were not touched)", f.dir)
		case name == "data", name == "password", name == "lock",
			strings.HasPrefix(name, "server.log"), strings.HasPrefix(name, newClusterPrefix):
		default:
			strange = append(strange, name)
		}
	}
	made, err := f.hasCluster()
	if err != nil {
		return err
	}
	// Next to a cluster somebody may keep notes or a dump.
	if len(strange) > 0 && !made {
		return fmt.Errorf("folder %s is not empty and was not made by onceward (it holds %s); name an empty or a new folder",
			f.dir, strings.Join(strange[:min(len(strange), 3)], ", "))
	}
	return nil
}

// hasCluster says whether data is a cluster. A data folder that holds
// something else is an error.
func (f *folder) hasCluster() (bool, error) {
	_, err := os.Stat(filepath.Join(f.data(), "PG_VERSION"))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	entries, err := os.ReadDir(f.data())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if len(entries) > 0 {
		return false, fmt.Errorf("folder %s is not empty, but it is not the data folder of a Postgres either (no file PG_VERSION); "+
			"move it away or name another folder", f.data())
	}
	return false, nil
}

// takeLock makes sure that one process uses the folder. It writes its process
// id into the lock file for the message that another one shows.
func (f *folder) takeLock() error {
	file, err := os.OpenFile(f.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.lockAndSign(file); err != nil {
		return errors.Join(err, file.Close())
	}
	f.lock = file
	return nil
}

func (f *folder) lockAndSign(file *os.File) error {
	taken, err := lockFile(file)
	if err != nil {
		return fmt.Errorf("locking %s: %w", f.lockFile(), err)
	}
	if !taken {
		holder, err := io.ReadAll(io.LimitReader(file, 32))
		if err != nil {
			holder = []byte("unknown")
		}
		return fmt.Errorf("another onceward (process %s) uses %s: stop it, or name another folder: %w",
			strings.TrimSpace(string(holder)), f.dir, ErrInUse)
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, os.Getpid())
	return err
}

// password returns the superuser's password: the given one, the kept one, or,
// when there is no cluster yet, a new one that is kept from now on.
func (f *folder) password(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	text, err := os.ReadFile(f.passwordFile())
	if kept := strings.TrimSpace(string(text)); err == nil && kept != "" {
		return kept, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("privatepg: %w", err)
	}
	made, err := f.hasCluster()
	if err != nil {
		return "", fmt.Errorf("privatepg: %w", err)
	}
	if made {
		return "", fmt.Errorf("privatepg: %s is missing or empty, and the cluster in %s has a password; "+
			"restore that file or give the password", f.passwordFile(), f.data())
	}
	password := rand.Text()
	if err := writeDurably(f.passwordFile(), password+"\n"); err != nil {
		return "", fmt.Errorf("privatepg: %w", err)
	}
	return password, nil
}

// writeDurably writes a file that only we can read. A cluster whose password
// was lost in a power cut would be lost with it.
func writeDurably(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}
