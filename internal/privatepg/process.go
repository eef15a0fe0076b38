package privatepg

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

//go:embed gate.sh
var gateScript string

//go:embed watchdog.sh
var watchdogScript string

// childrenTimeout is how long the server's own children may live on after it.
const childrenTimeout = 10 * time.Second

// process is a running postmaster that cannot outlive us.
//
// A watchdog, a small shell script, holds the reading end of a pipe whose
// writing end only we hold. When we die, in whatever way, the pipe ends and
// the watchdog shuts the postmaster down. The postmaster is started by a gate
// that waits until the watchdog is there, so there is no moment in which a
// postmaster runs unwatched. Linux's parent death signal would need an OS
// thread locked for the server's whole life, would be SIGKILL or nothing after
// it, and is not there on macOS.
type process struct {
	postmaster *exec.Cmd
	watchdog   *exec.Cmd
	// leash is the writing end that we hold.
	leash *os.File
	// family is the reading end of a pipe that the postmaster and all its
	// children hold open: it ends when the last of them is gone. They are in
	// process groups of their own, so there is no other portable way to know.
	family *os.File
}

// startProcess starts the program as the account, writing to log.
func startProcess(acct *account, log *os.File, program string, args ...string) (*process, error) {
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gateR.Close()
	defer gateW.Close() // without a line, the gate ends
	family, familyW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer familyW.Close()
	leashR, leash, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, family.Close())
	}
	defer leashR.Close()

	ctx := context.Background() // the server lives until it is stopped
	p := &process{leash: leash, family: family}
	p.postmaster = acct.command(ctx, shell, append([]string{"-c", gateScript, "gate", program}, args...)...)
	p.postmaster.Stdout, p.postmaster.Stderr = log, log
	p.postmaster.ExtraFiles = []*os.File{gateR, familyW} // descriptors 3 and 4
	if err := p.postmaster.Start(); err != nil {
		return nil, errors.Join(err, p.closePipes())
	}
	p.watchdog = acct.command(ctx, shell, "-c", watchdogScript, "watchdog", strconv.Itoa(p.pid()))
	p.watchdog.Stdin = leashR
	if err := p.watchdog.Start(); err != nil {
		return nil, errors.Join(err, p.endGate())
	}
	if _, err := io.WriteString(gateW, "go\n"); err != nil {
		return nil, errors.Join(err, p.signal(syscall.SIGKILL), errors.New(p.wait()))
	}
	return p, nil
}

// wait waits until the postmaster and its children are gone, tidies up and
// says how the postmaster ended. It must be called once.
func (p *process) wait() (how string) {
	how = "exit status 0"
	if err := p.postmaster.Wait(); err != nil {
		how = err.Error()
	}
	// Children of a killed postmaster notice it by themselves. A stuck one
	// must not hold us up for ever; Postgres itself refuses to start beside it.
	if p.family.SetReadDeadline(time.Now().Add(childrenTimeout)) == nil {
		_, _ = io.Copy(io.Discard, p.family) // the end or the deadline, all the same
	}
	// The watchdog goes before the leash: it must not act on a process id that
	// is free again. It may have gone by itself.
	_ = p.watchdog.Process.Kill()
	_ = p.watchdog.Wait()
	_ = p.closePipes()
	return how
}

// endGate ends a postmaster that was not let through the gate yet.
func (p *process) endGate() error {
	err := p.signal(syscall.SIGKILL)
	_ = p.postmaster.Wait() // it was killed, and nobody asks how it ended
	return errors.Join(err, p.closePipes())
}

func (p *process) closePipes() error { return errors.Join(p.leash.Close(), p.family.Close()) }

func (p *process) pid() int { return p.postmaster.Process.Pid }

// signal sends a signal to the postmaster. One that has ended needs none.
func (p *process) signal(signal os.Signal) error {
	err := p.postmaster.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
