package privatepg

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// account is whom Postgres runs as when that is not the account of this
// process: Postgres refuses to run as root. A nil account is this process's
// own; every method works on it.
type account struct {
	name     string
	uid, gid uint32
}

// command is exec.CommandContext for a program that runs as the account, in a
// session of its own (a Ctrl-C at the terminal is for this process to act on)
// and with an environment in which no PG variable of the user's changes what
// the programs do.
func (a *account) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	//nolint:gosec // running the programs that were found is what this is for; no shell reads the arguments
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/" // the account may not be able to read the current folder
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PG") || strings.HasPrefix(entry, "LC_") ||
			strings.HasPrefix(entry, "LANG") || strings.HasPrefix(entry, "TZ=")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = a.procAttr()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// suffix says for an error message whom a program ran as.
func (a *account) suffix() string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(" (as user %s)", a.name)
}

// reaches checks that the account can enter a folder, and names the first
// folder on the way that is closed to it. A program asks, running as the
// account, because mode bits are not all that decides (ACLs, file systems).
func (a *account) reaches(ctx context.Context, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if a == nil {
		return nil // what is closed to ourselves shows up at first use
	}
	const script = `for d do [ -x "$d" ] || { printf '%s' "$d"; exit 1; }; done`
	args := append([]string{"-c", script, "reaches"}, parents(dir)...)
	out, err := a.command(ctx, shell, args...).Output()
	if len(out) > 0 {
		return fmt.Errorf("user %s, as whom Postgres runs because this process is root, cannot enter folder %s; "+
			"name another folder, or open it with: chmod o+x %q", a.name, out, string(out))
	}
	if err != nil {
		return fmt.Errorf("running %s as user %s: %w", shell, a.name, err)
	}
	return nil
}

// parents lists dir's parents from the top, and dir.
func parents(dir string) []string {
	var all []string
	for {
		all = append(all, dir)
		up := filepath.Dir(dir)
		if up == dir {
			slices.Reverse(all)
			return all
		}
		dir = up
	}
}

const shell = "/bin/sh"
