package echo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/onceward/onceward/bench/child"
	"github.com/onceward/onceward/bench/clients"
	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/machine"
)

// size is about that of a request with its answer.
const size = 500

// Contestant calls the echo server. Nothing is durable and nothing is recorded:
// it is the floor, not a competitor.
type Contestant struct {
	Connections int
	Telemetry   bool

	server  *child.Child
	clients *clients.Pool
	echoed  atomic.Int64
	asked   atomic.Int64
}

var _ contest.Contestant = (*Contestant)(nil)

// Name implements contest.Contestant.
func (*Contestant) Name() string { return "echo" }

// Start implements contest.Contestant.
func (c *Contestant) Start(ctx context.Context, env contest.Env) (err error) {
	c.echoed.Store(0)
	c.asked.Store(0)
	c.server, err = child.Start(ctx, env.Self, "echo", "-telemetry="+strconv.FormatBool(c.Telemetry))
	if err != nil {
		return err
	}
	c.clients, err = clients.Dial(c.server.Address, c.Connections)
	if err != nil {
		return errors.Join(err, c.server.Stop())
	}
	return nil
}

// Do implements contest.Contestant.
func (c *Contestant) Do(ctx context.Context, key string) error {
	c.asked.Add(1)
	sent := append(bytes.Repeat([]byte{'.'}, size-len(key)), key...)
	got := new(wrapperspb.BytesValue)
	if err := c.clients.Next().Invoke(ctx, method, wrapperspb.Bytes(sent), got, grpc.StaticMethod()); err != nil {
		return err
	}
	if !bytes.Equal(got.GetValue(), sent) {
		return fmt.Errorf("echo of %d bytes has %d", len(sent), len(got.GetValue()))
	}
	c.echoed.Add(1)
	return nil
}

// ServerCPU is the processor time that the server has used; false where the system
// does not tell.
func (c *Contestant) ServerCPU() (time.Duration, bool) { return machine.FamilyCPU(c.server.PID()) }

// Duplicate implements contest.Contestant. To an echo it is all the same.
func (c *Contestant) Duplicate(ctx context.Context, key string) error { return c.Do(ctx, key) }

// Check implements contest.Contestant.
func (c *Contestant) Check(context.Context, int64) error {
	return contest.Same("echoes", c.echoed.Load(), c.asked.Load())
}

// Close implements contest.Contestant.
func (c *Contestant) Close() error { return errors.Join(c.clients.Close(), c.server.Stop()) }
