//go:build unix

package secrets

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock makes changes of one folder wait for one another. The system gives it
// back when the process dies.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("secrets: lock %s: %w", dir, err)
	}
	return func() { _ = d.Close() }, nil
}
