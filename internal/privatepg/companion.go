package privatepg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// Command is exec.CommandContext for another program of Postgres', such as
// pg_basebackup: as the account that private servers run as, in its environment,
// outside the current folder. The end of ctx ends it with SIGTERM.
func Command(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	return acct.command(ctx, program, args...), nil
}

// Own gives a file or a folder, without what is in it, to the account that private
// servers run as.
func Own(path string) error {
	acct, err := serverAccount()
	if err != nil {
		return err
	}
	if err := acct.own(path); err != nil {
		return fmt.Errorf("privatepg: %w", err)
	}
	return nil
}

// Companion is a program that runs beside a private server, such as a pooler: as
// the same account, and like it no longer than this process, kill -9 included.
type Companion struct {
	proc *process
	done chan struct{}
	how  string
}

// StartCompanion starts a program that writes to log, which stays the caller's.
func StartCompanion(log *os.File, program string, args ...string) (*Companion, error) {
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	proc, err := startProcess(acct, log, program, args...)
	if err != nil {
		return nil, fmt.Errorf("privatepg: starting %s%s: %w", program, acct.suffix(), err)
	}
	c := &Companion{proc: proc, done: make(chan struct{})}
	go func() {
		c.how = proc.wait()
		close(c.done)
	}()
	return c, nil
}

// Signal sends a signal. A program that has ended needs none.
func (c *Companion) Signal(signal os.Signal) error { return c.proc.signal(signal) }

// Done is closed when the program has ended.
func (c *Companion) Done() <-chan struct{} { return c.done }

// How says how the program ended, and is empty while it runs.
func (c *Companion) How() string {
	select {
	case <-c.done:
		return c.how
	default:
		return ""
	}
}
