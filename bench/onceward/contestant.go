package onceward

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/onceward/onceward/bench/child"
	"github.com/onceward/onceward/bench/clients"
	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/ledgerdb"
	"github.com/onceward/onceward/bench/machine"
	"github.com/onceward/onceward/bench/noop"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Options say which server to run and how to call it.
type Options struct {
	Ledger      string // Grouped or Naive
	Connections int    // of the client
	// NaiveConnections are those of the naive ledger to the database.
	NaiveConnections int
	Telemetry        bool
	LogLevel         string
	// Forgetful: the server keeps no finished actions in memory.
	Forgetful bool
}

// Contestant calls the server. It is safe for concurrent use after Start.
type Contestant struct {
	Options
	name string

	database ledgerdb.Database
	server   *child.Child
	clients  *clients.Pool
}

var _ contest.Contestant = (*Contestant)(nil)

// New makes a contestant.
func New(name string, o Options) *Contestant { return &Contestant{Options: o, name: name} }

// Name implements contest.Contestant.
func (c *Contestant) Name() string { return c.name }

// Start implements contest.Contestant.
func (c *Contestant) Start(ctx context.Context, env contest.Env) (err error) {
	if c.database, err = ledgerdb.Create(ctx, env, "bench_"+strings.ReplaceAll(c.name, "-", "_")); err != nil {
		return err
	}
	return c.Serve(ctx, env, c.database)
}

// Serve starts the server on a database that is there.
func (c *Contestant) Serve(ctx context.Context, env contest.Env, database ledgerdb.Database) (err error) {
	c.database = database
	c.server, err = child.Start(ctx, env.Self, "serve",
		"-database="+database.ServeURL, "-secrets="+database.SecretsDir,
		"-ledger="+c.Ledger, "-telemetry="+strconv.FormatBool(c.Telemetry), "-log="+c.LogLevel,
		"-replays="+strconv.FormatBool(!c.Forgetful),
		"-naive-connections="+strconv.Itoa(c.NaiveConnections))
	if err != nil {
		return err
	}
	c.clients, err = clients.Dial(c.server.Address, c.Connections)
	if err != nil {
		return errors.Join(err, c.server.Stop())
	}
	return nil
}

func (c *Contestant) request(ctx context.Context, key string) (*oncewardv1.RequestActionResponse, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.database.Key)
	return oncewardv1.NewActionServiceClient(c.clients.Next()).RequestAction(ctx, &oncewardv1.RequestActionRequest{
		ActionType:     noop.Type,
		ArgumentsForm:  &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: noop.Arguments},
		IdempotencyKey: key,
		Run:            &oncewardv1.RunContext{RunId: "run_8f2c91", StepId: "refund", ToolCallId: "call_5"},
	}, grpc.StaticMethod())
}

// Do implements contest.Contestant.
func (c *Contestant) Do(ctx context.Context, key string) error {
	answer, err := c.request(ctx, key)
	if err != nil {
		return err
	}
	if answer.GetDisposition() != oncewardv1.Disposition_DISPOSITION_EXECUTED || answer.GetOperation().GetReceipt() == nil {
		return fmt.Errorf("action %s: %s, state %s", key, answer.GetDisposition(), answer.GetOperation().GetState())
	}
	return nil
}

// Duplicate implements contest.Contestant.
func (c *Contestant) Duplicate(ctx context.Context, key string) error {
	answer, err := c.request(ctx, key)
	if err != nil {
		return err
	}
	if !answer.GetReplayed() || answer.GetOperation().GetReceipt() == nil {
		return fmt.Errorf("duplicate %s: %s, state %s", key, answer.GetDisposition(), answer.GetOperation().GetState())
	}
	return nil
}

// Check implements contest.Contestant.
func (c *Contestant) Check(ctx context.Context, actions int64) error {
	effects, err := c.server.Count("effects")
	if err != nil {
		return err
	}
	return errors.Join(contest.Same("effects", effects, actions), c.database.Check(ctx, actions))
}

// CheckReplays fails if anything happened on a ledger with so many finished
// actions but that they were asked for.
func (c *Contestant) CheckReplays(ctx context.Context, actions int64) error {
	effects, err := c.server.Count("effects")
	if err != nil {
		return err
	}
	return errors.Join(contest.Same("effects", effects, 0), c.database.Check(ctx, actions))
}

// Close implements contest.Contestant.
func (c *Contestant) Close() error { return errors.Join(c.clients.Close(), c.server.Stop()) }

// Profile begins a processor profile of the server, or ends it when the file has
// no name.
func (c *Contestant) Profile(file string) error {
	if file != "" {
		var err error
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
	}
	_, err := c.server.Ask("profile " + file)
	return err
}

// ServerCPU is the processor time that the server has used; false where the system
// does not tell.
func (c *Contestant) ServerCPU() (time.Duration, bool) { return machine.FamilyCPU(c.server.PID()) }

// Watch notes the server's memory: before the first call, and the most that it
// was while it had many callers.
func (c *Contestant) Watch(round contest.Round, kind string, callers int) (done func()) {
	prefix := c.name + "_rss_"
	if callers == 1 && kind == contest.Action {
		// What it needed to start is given back soon.
		time.Sleep(min(round.Each, time.Second))
		if mib, ok := machine.Resident(c.server.PID()); ok {
			round.Value(prefix+"idle_mib", "MiB", mib)
		}
	}
	ended, most := make(chan struct{}), make(chan float64)
	go func() {
		highest := 0.0
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			if mib, ok := machine.Resident(c.server.PID()); ok {
				highest = max(highest, mib)
			}
			select {
			case <-tick.C:
			case <-ended:
				tick.Stop()
				most <- highest
				return
			}
		}
	}()
	return func() {
		close(ended)
		if mib := <-most; mib > 0 && kind == contest.Action {
			round.Value(fmt.Sprintf("%sc%d_mib", prefix, callers), "MiB", mib)
		}
	}
}
