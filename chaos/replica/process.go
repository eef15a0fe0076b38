package replica

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/internal/crashpoint"
)

// startPatience is how long a replica may take to be ready.
const startPatience = 30 * time.Second

// Process is a running replica. It is safe for concurrent use.
type Process struct {
	address string
	cmd     *exec.Cmd
	exited  chan struct{}
	stats   chan Stats

	mu       sync.Mutex // of writing commands
	commands io.WriteCloser
}

// Start runs a program (the chaos program itself) as a replica and returns when it is
// ready. What it logs goes to logs. It fails when the replica does, or when ctx ends
// first.
func Start(ctx context.Context, program string, c Config, logs *os.File) (*Process, error) {
	env, err := c.encode()
	if err != nil {
		return nil, err
	}
	// Its life is not ctx's: Kill and Stop end it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program)
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = logs
	// Ctrl-C at the campaign's terminal is not for it: it must see the end of the campaign.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	commands, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	p := &Process{cmd: cmd, exited: make(chan struct{}), stats: make(chan Stats, 1), commands: commands}
	ready := make(chan string, 1)
	go func() {
		p.listen(out, ready)
		_ = cmd.Wait() // a replica that is killed is what a campaign wants
		close(p.exited)
	}()
	select {
	case p.address = <-ready:
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("replica %s ended before it was ready: see %s", c.Name, logs.Name())
	case <-ctx.Done():
	case <-time.After(startPatience):
	}
	p.Kill()
	return nil, fmt.Errorf("replica %s was not ready in time: see %s", c.Name, logs.Name())
}

// listen takes what the replica says until it is gone.
func (p *Process) listen(out io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var s said
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue // something else that it printed
		}
		if s.Ready {
			ready <- s.Address
		}
		if s.Stats != nil {
			select {
			case p.stats <- *s.Stats:
			default: // nobody waits for it any more
			}
		}
	}
}

// Address is where callers find it; empty where it serves none.
func (p *Process) Address() string { return p.address }

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Failure says how it ended, where nobody ended it so: with an exit code of its own, as a
// panic does, or by another signal than SIGKILL. It is empty while the process runs.
func (p *Process) Failure() string {
	select {
	case <-p.exited:
	default:
		return ""
	}
	how := p.cmd.ProcessState
	if status, ok := how.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL || how.Success() {
		return ""
	}
	return how.String()
}

// Arm makes it die when it next comes to a crash point. A process that is gone takes
// no command, which is no fault of the caller's.
func (p *Process) Arm(point crashpoint.Point) { p.command(commandArm + " " + string(point)) }

func (p *Process) command(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.commands, line+"\n")
}

// Stats asks the process how it is. It fails when there is no answer in time.
func (p *Process) Stats(ctx context.Context) (Stats, error) {
	select {
	case <-p.stats: // an answer that came too late
	default:
	}
	p.command(commandStats)
	select {
	case s := <-p.stats:
		return s, nil
	case <-p.exited:
		return Stats{}, errors.New("replica: it is gone")
	case <-ctx.Done():
		return Stats{}, fmt.Errorf("replica: no answer: %w", ctx.Err())
	}
}

// Kill ends it with SIGKILL and waits for it. Doing it twice is harmless.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// Pause stops it with SIGSTOP, as a long pause of the collector, of a virtual machine
// or of a scheduler does, and Resume lets it go on.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop ends it in order, as an upgrade does, and waits for it. It kills it when ctx
// ends first, and says so.
func (p *Process) Stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("replica: it did not stop in time: %w", ctx.Err())
	}
}
