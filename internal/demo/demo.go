package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"
)

// Service is one Onceward on an empty ledger, in a process that can be killed.
// Its methods are not called concurrently.
type Service interface {
	// Start starts the process and returns when it serves; ctx bounds the start
	// only. After Kill it starts
	// it again, on the same address and the same ledger.
	Start(ctx context.Context) error
	// Kill ends the process as kill -9 does, and waits for its end.
	Kill() error
	// Address is where it serves, or will.
	Address() string
	// Key is the credential of an agent of a tenant.
	Key(tenant string) string
	// Notes returns the rows that notes.insert made.
	Notes(ctx context.Context) ([]Note, error)
	// Close ends the process and removes what was made for it.
	Close() error
}

// Note is a row of notes.insert.
type Note struct{ Tenant, Subject, Body string }

// Setup says what a Service is to be like.
type Setup struct {
	Name        string   // short and unique within a run, for databases and files
	ProviderURL string   // of its fake provider
	Tenants     []string // they exist, and each has an agent with a key
	// AttemptTimeout and LeaseGrace make up a lease, SettleTime is the longest
	// that the provider's look-ups lag, ReconcileInterval is the time between two
	// rounds of the reconciler, and ReconcileLease is how long it has an operation
	// to itself: all short, as a demo wants them.
	AttemptTimeout, LeaseGrace, SettleTime, ReconcileInterval, ReconcileLease time.Duration
}

// The limits of Options.Speed.
const (
	MinSpeed = 0.1
	MaxSpeed = 20.0
)

// DefaultKills is how often the third play kills Onceward.
const DefaultKills = 5

// Options say what to play.
type Options struct {
	Trace []Line
	// Speed is how many times faster than real the trace is played, the
	// provider's delays and the callers' patience included; from MinSpeed to
	// MaxSpeed.
	Speed float64
	// Kills is how often the third play kills the process, where the trace has
	// so many actions to kill it in.
	Kills int
	// Open makes a service that is not started yet. It may be called
	// concurrently.
	Open func(ctx context.Context, s Setup) (Service, error)
	// Progress, if set, is told how far a play is. It is called concurrently and
	// must not block.
	Progress func(Progress)
}

// Play names one of the three.
type Play int

// The plays.
const (
	Direct Play = iota
	Onceward
	Killed
)

// String is how reports name a play.
func (p Play) String() string {
	switch p {
	case Direct:
		return "straight to the provider"
	case Onceward:
		return "through Onceward"
	case Killed:
		return "through Onceward, killed"
	default:
		return fmt.Sprintf("play %d", int(p))
	}
}

// Progress is how far a play is.
type Progress struct {
	Play Play
	// Answered of Total requests are answered; when all are, operations may
	// still be in doubt.
	Answered, Total int
	Kills           int
	Done            bool // judged
}

// Run plays the trace in all three ways at once, each against a provider of its
// own, and judges them. An error means that the demo could not be played to its
// end; what Onceward got wrong is in the result.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Speed < MinSpeed || o.Speed > MaxSpeed {
		return Result{}, fmt.Errorf("speed %g is not between %g and %g", o.Speed, MinSpeed, MaxSpeed)
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	lines, waiting := playable(o.Trace)
	if len(lines) == 0 {
		return Result{}, errors.New("every request of the trace waits for a later release")
	}
	r := Result{Requests: len(lines), Waiting: waiting, Speed: o.Speed, cases: casesOf(lines)}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		r.Direct, err = playDirect(ctx, o, lines)
		return named(Direct, err)
	})
	for _, play := range []struct {
		play Play
		into *Outcome
	}{{Onceward, &r.Onceward}, {Killed, &r.Killed}} {
		group.Go(func() (err error) {
			*play.into, err = playOnceward(ctx, o, play.play, lines)
			return named(play.play, err)
		})
	}
	err := group.Wait()
	return r, err
}

func named(p Play, err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok { // what the service said, without the words of the transport
		return fmt.Errorf("%s: %s: %s", p, st.Code(), st.Message())
	}
	return fmt.Errorf("%s: %w", p, err)
}

// playable returns the lines that can be played, and how many wait.
func playable(trace []Line) (lines []Line, waiting int) {
	for _, line := range trace {
		if line.Needs != "" && line.Needs != "intent" { // intents are there
			waiting++
			continue
		}
		lines = append(lines, line)
	}
	return lines, waiting
}
