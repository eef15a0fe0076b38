package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	agenttrace "github.com/onceward/onceward/examples/agent-trace"
	"github.com/onceward/onceward/internal/demo"
	"github.com/onceward/onceward/internal/privatepg"
)

type demoCmd struct {
	Trace       string  `type:"existingfile" help:"Play this trace instead of the built-in one; its format is in examples/agent-trace/README.md."`
	Speed       float64 `default:"2" help:"How many times faster than real the trace is played, 0.1 to 20."`
	Kills       int     `default:"5" help:"How often Onceward is killed in the third play."`
	DatabaseURL string  `name:"database-url" help:"Use this Postgres instead of a private one, in databases that are dropped in the end; the role may create databases and roles."`
	JSON        bool    `name:"json" help:"Print the numbers as one JSON object."`
}

func (*demoCmd) Help() string {
	return `Example:
  onceward demo
  onceward demo --json --speed=5

It plays what agents send, with their retries, straight at a provider that misbehaves, then through
Onceward, then through an Onceward that is killed in mid-call, and counts what the provider holds.
It needs nothing that onceward dev does not need, and leaves nothing behind. The exit code is 1 when
an action has not exactly the effects that it should have through Onceward.`
}

var errInterrupted = errors.New("interrupted; nothing is left behind")

// Run plays the trace and prints what came of it.
func (c *demoCmd) Run(ctx context.Context, s streams) (err error) {
	trace, err := c.trace()
	if err != nil {
		return err
	}
	if c.Speed < demo.MinSpeed || c.Speed > demo.MaxSpeed {
		return fmt.Errorf("%w: --speed wants %g to %g", errUsage, demo.MinSpeed, demo.MaxSpeed)
	}
	if c.Kills < 0 {
		return fmt.Errorf("%w: --kills cannot be negative", errUsage)
	}
	live := newProgress(s.err)
	defer live.end()
	result, err := c.play(ctx, live, trace)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	}
	live.end()
	write := result.WriteText
	if c.JSON {
		write = result.WriteJSON
	}
	if err := write(s.out); err != nil {
		return err
	}
	if wrong := result.Mismatches(); len(wrong) > 0 {
		return fmt.Errorf("%d actions have not the effects that they should have through Onceward", len(wrong))
	}
	return nil
}

func (c *demoCmd) trace() ([]demo.Line, error) {
	if c.Trace == "" {
		return demo.Decode(agenttrace.Name, agenttrace.Trace())
	}
	data, err := os.ReadFile(c.Trace)
	if err != nil {
		return nil, err
	}
	return demo.Decode(c.Trace, data)
}

// play makes what all plays share, runs them, and removes it again.
func (c *demoCmd) play(ctx context.Context, live *progress, trace []demo.Line) (_ demo.Result, err error) {
	dir, err := openTempDir()
	if err != nil {
		return demo.Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	serverURL := c.DatabaseURL
	if serverURL == "" {
		live.say("starting a private Postgres")
		// Speed matters here, and what a crash of the machine would lose does not.
		pg, err := privatepg.Start(ctx, privatepg.Options{Dir: filepath.Join(dir, "postgres"), Settings: map[string]string{"fsync": "off"}})
		if err != nil {
			return demo.Result{}, err
		}
		defer func() {
			stopping, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			err = errors.Join(err, pg.Stop(stopping))
		}()
		serverURL = pg.URL("postgres")
	}
	live.say("preparing the ledgers")
	playing, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	theatre := &demoTheatre{dir: dir, serverURL: serverURL, fail: fail}
	result, err := demo.Run(playing, demo.Options{
		Trace: trace, Speed: c.Speed, Kills: c.Kills, Open: theatre.open, Progress: live.told,
	})
	if cause := context.Cause(playing); cause != nil {
		err = cause
	}
	return result, err
}

// openTempDir makes a temporary folder that the account of a private Postgres
// can pass through.
func openTempDir() (string, error) {
	dir, err := os.MkdirTemp("", "onceward-demo-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711) // what is in it has modes of its own
}
