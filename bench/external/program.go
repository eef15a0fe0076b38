package external

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/contest"
)

// program is a contestant in a folder with a go.mod.
type program struct {
	name   string
	source string
	skip   func(name, reason string)
	binary string
	reason string // why it is left out
}

// Entry measures the module in a folder. What cannot be built or run is left
// out, aloud: skip is told why.
func Entry(name, source string, widths contest.Widths, skip func(name, reason string)) contest.Entry {
	p := &program{name: name, source: source, skip: skip}
	return contest.Entry{
		Name:     name,
		Promises: map[string]contest.Widths{name: widths},
		Prepare:  p.build,
		Measure: func(ctx context.Context, round contest.Round) error {
			return p.measure(ctx, round, widths)
		},
	}
}

func (p *program) build(ctx context.Context, env contest.Env) error {
	env.Logf("%s: building %s (once; minutes at most)", p.name, p.source)
	binary := filepath.Join(env.Dir, p.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".") //nolint:gosec // a folder of this repository
	cmd.Dir = p.source
	output, err := cmd.CombinedOutput()
	if err == nil {
		p.binary = binary
	} else {
		p.leaveOut(fmt.Sprintf("building it failed: %v: %s", err, lastLine(output)))
	}
	return ctx.Err()
}

func (p *program) leaveOut(reason string) {
	p.reason = reason
	p.skip(p.name, reason)
}

// measure runs the program for each number of callers, with duplicates where
// both are wanted.
func (p *program) measure(ctx context.Context, round contest.Round, widths contest.Widths) error {
	for _, callers := range round.Among(widths.Actions) {
		if p.reason != "" {
			return nil // left out before
		}
		err := p.run(ctx, round, callers, slices.Contains(widths.Duplicates, callers))
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			p.leaveOut(err.Error())
		}
	}
	return nil
}

// patience is how long a program may take beside its measurements: its server
// has to start.
const patience = 5 * time.Minute

func (p *program) run(ctx context.Context, round contest.Round, callers int, duplicates bool) (err error) {
	dir, err := os.MkdirTemp(round.Dir, p.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	database := "bench_" + strings.ReplaceAll(p.name, "-", "_")
	url, err := round.Database(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, round.Drop(context.WithoutCancel(ctx), database)) }()
	ctx, cancel := context.WithTimeout(ctx, patience+10*round.Each)
	defer cancel()
	args := []string{
		"-postgres=" + url, "-dir=" + dir, "-concurrency=" + strconv.Itoa(callers),
		"-seconds=" + strconv.FormatFloat(round.Each.Seconds(), 'f', -1, 64),
	}
	if duplicates {
		args = append(args, "-duplicates")
	}
	cmd := exec.CommandContext(ctx, p.binary, args...) //nolint:gosec // built by build
	cmd.WaitDelay = 10 * time.Second
	complaints := &bytes.Buffer{}
	cmd.Stderr = complaints
	// It has the time to stop its own server.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(complaints.Bytes()))
	}
	return p.read(round, output)
}

// read records the lines that a program printed.
func (p *program) read(round contest.Round, output []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(output))
	measured := 0
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var m contest.Measurement
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		switch {
		case m.Skipped != "" && m.Name == p.name:
			return errors.New(m.Skipped)
		case m.Skipped != "":
			p.skip(m.Name, m.Skipped)
		case m.Ops <= 0 || m.Seconds <= 0:
			return fmt.Errorf("line %q measures nothing", lines.Text())
		default:
			measured++
			round.Record(m)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if measured == 0 {
		return errors.New("it printed no measurement")
	}
	return nil
}

// lastLine is the end of what a program said, short enough for a table.
func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	last := lines[len(lines)-1]
	return string(last[:min(len(last), 300)])
}
