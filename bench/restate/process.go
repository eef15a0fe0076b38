package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command prepares a program that is asked to end with the context and made to
// end some seconds later. Its output goes to standard error, and what the user
// has set for Restate elsewhere does not reach it.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	//nolint:gosec // npm, and the program it brought; no shell reads the arguments
	cmd := exec.CommandContext(ctx, program, args...)
	for _, entry := range cmd.Environ() {
		if !strings.HasPrefix(entry, "RESTATE_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = childAttr()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// process is a program that runs.
type process struct {
	// done is closed when the program has ended; err is why, and is read after.
	done chan struct{}
	err  error
}

// start runs the command. It is started and waited for on one thread of the
// system that does nothing else, since on Linux the child ends with the thread
// that started it.
func start(cmd *exec.Cmd) *process {
	p := &process{done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		p.err = cmd.Run()
	}()
	return p
}

func (p *process) wait() error {
	<-p.done
	return p.err
}
