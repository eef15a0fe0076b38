//go:build unix

package yamlfiles_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/internal/yamlfiles"
)

// TestPipesAreNotWaitedFor: nobody ever writes to this one, and whoever opened it
// would hang, at the start of the service and at each look at its files.
func TestPipesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "a.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{dir, pipe} {
		if _, err := yamlfiles.DigestOf(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("digest of %s: %v", path, err)
		}
		if _, err := yamlfiles.Read(path); err == nil || !strings.Contains(err.Error(), "a.yaml: is no regular file") {
			t.Errorf("read of %s: %v", path, err)
		}
	}
}
