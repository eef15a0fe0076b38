package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Child is a server that runs. It is safe for concurrent use.
type Child struct {
	Address string
	cmd     *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex
	out     *bufio.Reader
}

// Start runs a program and waits until it is ready. What it says on standard
// error is shown.
func Start(ctx context.Context, program string, args ...string) (*Child, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, args...) //nolint:gosec // starting programs is its work
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := c.out.ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("%s %s did not become ready: it said %q", program, args[0], line), c.Stop())
	}
	c.Address = address
	return c, nil
}

// PID is the server's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ask sends one line and returns the answer.
func (c *Child) Ask(line string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return "", err
	}
	answer, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("asked %q: %w", line, err)
	}
	answer = strings.TrimSpace(answer)
	if reason, failed := strings.CutPrefix(answer, "error: "); failed {
		return "", fmt.Errorf("asked %q: %s", line, reason)
	}
	return answer, nil
}

// Count asks for a number.
func (c *Child) Count(line string) (int64, error) {
	answer, err := c.Ask(line)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer, 10, 64)
}

// Stop ends the server and waits for it.
func (c *Child) Stop() error {
	closed := c.in.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	return errors.Join(closed, c.cmd.Wait())
}
