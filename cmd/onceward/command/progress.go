package command

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/demo"
)

// progress shows how far the demo is: one line that is rewritten on a terminal,
// else a line for each stage. It is safe for concurrent use.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time

	mu    sync.Mutex
	plays map[demo.Play]demo.Progress
	shown bool // an unfinished line is on the terminal
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, terminal: isTerminal(out), began: time.Now(), plays: map[demo.Play]demo.Progress{}}
}

// isTerminal reports whether what is written is seen by a person at once.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// say tells of a stage.
func (p *progress) say(stage string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(stage + " ...")
}

// told is demo.Options.Progress.
func (p *progress) told(now demo.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, begun := p.plays[now.Play]
	if begun && (before.Done || before.Answered > now.Answered) {
		return // overtaken on its way here
	}
	p.plays[now.Play] = now
	switch {
	case p.terminal:
		p.line(fmt.Sprintf("direct %s, Onceward %s, killed %s (%d times)",
			p.of(demo.Direct), p.of(demo.Onceward), p.of(demo.Killed), p.plays[demo.Killed].Kills))
	case now.Done:
		p.line(fmt.Sprintf("%s: done", now.Play))
	case !begun:
		p.line(fmt.Sprintf("%s: playing %d requests", now.Play, now.Total))
	}
}

func (p *progress) of(play demo.Play) string {
	now := p.plays[play]
	switch {
	case now.Done:
		return "done"
	case now.Total == 0:
		return "preparing"
	case now.Answered == now.Total:
		return "resolving"
	default:
		return fmt.Sprintf("%d/%d", now.Answered, now.Total)
	}
}

// line writes a line; the caller holds the lock.
func (p *progress) line(text string) {
	text = fmt.Sprintf("%5.1f s  %s", time.Since(p.began).Seconds(), text)
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text) // back to its start, and clear it
	p.shown = true
}

// end removes the line from the terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}
