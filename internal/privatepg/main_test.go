//go:build unix

package privatepg

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// envOwner makes the test binary a process that owns a server in the folder
// that the variable names, tells its process ids, and waits to be killed.
const envOwner = "ONCEWARD_PRIVATEPG_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envOwner); dir != "" {
		os.Exit(ownServer(dir))
	}
	os.Exit(m.Run())
}

func ownServer(dir string) int {
	s, err := Start(context.Background(), forTests(dir))
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(s.PID(), s.URL(maintenanceDB))
	<-s.Done()
	return 1
}

func forTests(dir string) Options {
	return Options{Dir: dir, Settings: map[string]string{
		"fsync": "off", "full_page_writes": "off", "dynamic_shared_memory_type": "mmap",
	}}
}

// openDir is a folder that the server's account can reach, which a plain
// t.TempDir is not for root.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, closed := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(closed, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// eventually polls until ok, and fails the test after the limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
}

// write makes a file and its folders.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
