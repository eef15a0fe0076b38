//go:build unix

package privatepg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestWaitIsForTheChildrenToo starts a program that ends at once and leaves a
// child behind, which lives until we let it go.
func TestWaitIsForTheChildrenToo(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	let, gone := filepath.Join(dir, "let"), filepath.Join(dir, "gone")
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	log, err := openLog(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := errors.Join(os.Chmod(dir, 0o777), syscall.Mkfifo(let, 0o666), os.Chmod(let, 0o666)); err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(acct, log, shell, "-c", `(read -r line <"$1"; : >"$2") & exit 7`, "parent", let, gone)
	if err != nil {
		t.Fatal(err)
	}
	how := make(chan string, 1)
	go func() { how <- p.wait() }()
	eventually(t, 5*time.Second, "parent gone", func() bool { return !alive(p.pid()) })
	write(t, let, "go\n", 0o666)
	if got := <-how; got != "exit status 7" {
		t.Errorf("the program ended with %q, want exit status 7", got)
	}
	if _, err := os.Stat(gone); err != nil {
		t.Errorf("wait returned before the child was gone: %v", err)
	}
}

func TestZombieIsNoServer(t *testing.T) {
	t.Parallel()
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	// A copy of the name is enough: what counts is what the system says.
	program := filepath.Join(openDir(t), "postgres")
	if err := os.Symlink(shell, program); err != nil {
		t.Fatal(err)
	}
	cmd := acct.command(context.WithoutCancel(t.Context()), program, "-c", "read -r line")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "a process called postgres", func() bool { return isPostgres(t.Context(), cmd.Process.Pid) })
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	// Nobody waits for it yet.
	eventually(t, 5*time.Second, "a zombie", func() bool { return !isPostgres(t.Context(), cmd.Process.Pid) })
	if !alive(cmd.Process.Pid) {
		t.Error("the zombie is gone, so nothing was tested")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process read a line that nobody wrote")
	}
}
