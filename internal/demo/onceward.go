package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceward/onceward/fakeprovider"
)

// What the demo's services are told, at speed 1. A provider that takes 3 s is
// within the time of an attempt, and a look-up that lags 3 s within the settle
// time. The grace is real time: it is for the ledger, which plays at no speed.
const (
	attemptTimeout    = 4 * time.Second
	settleTime        = 4 * time.Second
	leaseGrace        = time.Second
	reconcileInterval = 100 * time.Millisecond
	// reconcileLease is what a reconciler that is killed keeps an operation for.
	reconcileLease = 5 * time.Second
	// shortest keeps scaled times in the reach of a busy machine.
	shortest = time.Second
	// resolveTimeout is how long after the last answer doubts are waited for.
	resolveTimeout = 20 * time.Second
)

// Outcome is what came of a play through Onceward.
type Outcome struct {
	Tally
	// Replayed is how many answers came from the ledger: the operation was
	// finished, or under way for another request. Nothing was sent for them.
	Replayed int `json:"replayed"`
	// Refused is how many requests were refused, such as a key with other
	// arguments.
	Refused int `json:"refused"`
	// UnknownResolved is how many operations were in doubt at some time and are
	// resolved now.
	UnknownResolved int `json:"unknown_resolved"`
	// Unresolved is how many operations were not finished in the end: an honest
	// doubt, or a question that waits for a person.
	Unresolved int `json:"unresolved"`
	// Kills is how often the process was killed.
	Kills int `json:"kills"`

	// open says which operations are not finished.
	open []string
}

// production is one play through Onceward.
type production struct {
	*stage
	service Service
	agents  *agents
	lines   []Line
	play    Play
	kills   map[int]killPoint // by line
	report  func(Progress)
	// turn holds one token. A kill takes it, and so does a line that a kill must
	// not meet.
	turn chan struct{}

	mu       sync.Mutex
	outcome  Outcome
	answered int
}

// playOnceward sends each line to a service of its own, and kills that as often
// as asked when the play is Killed. It returns when all is resolved, or cannot be.
func playOnceward(ctx context.Context, o Options, play Play, lines []Line) (_ Outcome, err error) {
	s, err := newStage(pace(o.Speed))
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	service, err := o.Open(ctx, s.setup(play, lines))
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	if err := service.Start(ctx); err != nil {
		return Outcome{}, err
	}
	agents, err := newAgents(service, s.pace)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, agents.close()) }()
	p := &production{stage: s, service: service, agents: agents, lines: lines, play: play, report: o.Progress, turn: make(chan struct{}, 1)}
	if play == Killed {
		p.kills = killPoints(lines, o.Kills)
	}
	if err := p.run(ctx); err != nil {
		return Outcome{}, err
	}
	err = p.judge(ctx)
	return p.outcome, err
}

func (s *stage) setup(play Play, lines []Line) Setup {
	setup := Setup{
		Name: "plain", ProviderURL: s.server.URL(), Tenants: tenantsOf(lines),
		AttemptTimeout: max(s.pace.of(attemptTimeout), shortest), LeaseGrace: leaseGrace,
		SettleTime: max(s.pace.of(settleTime), shortest), ReconcileInterval: reconcileInterval, ReconcileLease: reconcileLease,
	}
	if play == Killed {
		setup.Name = "killed"
	}
	return setup
}

func tenantsOf(lines []Line) []string {
	var tenants []string
	for _, line := range lines {
		if !slices.Contains(tenants, line.Request.Tenant) {
			tenants = append(tenants, line.Request.Tenant)
		}
	}
	return tenants
}

// run plays the lines and the kills, and returns when all is resolved.
func (p *production) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	over := make(chan struct{})
	group.Go(func() error {
		defer close(over) // for kill points that no call has reached
		if err := p.stage.play(ctx, p.lines, p.send); err != nil {
			return err
		}
		open, err := p.agents.resolved(ctx, tenantsOf(p.lines))
		p.outcome.open, p.outcome.Unresolved = open, len(open)
		return err
	})
	for _, point := range p.kills {
		group.Go(func() error {
			killed, err := point.execute(ctx, over, p.service, p.turn)
			if killed {
				p.tell(func() { p.outcome.Kills++ })
			}
			return err
		})
	}
	return group.Wait()
}

// tell changes what is known of the play and reports it.
func (p *production) tell(change func()) {
	p.mu.Lock()
	change()
	now := p.progress()
	p.mu.Unlock()
	p.report(now)
}

// progress is how far the play is, for a caller that holds the lock.
func (p *production) progress() Progress {
	return Progress{Play: p.play, Answered: p.answered, Total: len(p.lines), Kills: p.outcome.Kills}
}

// send sends a line as an agent does and notes what kind of answer came.
func (p *production) send(ctx context.Context, line Line) error {
	if sheltered(line) {
		p.turn <- struct{}{}
		defer func() { <-p.turn }()
	}
	var before, after *fakeprovider.Gate
	if point, ok := p.kills[line.Number]; ok {
		before, after = point.gates()
	}
	if err := p.arm(line, before, after); err != nil {
		return err
	}
	listening := make(chan error, 1)
	if line.Fault.Kind == fakeprovider.RefuseConnection {
		go func() { listening <- p.resume(ctx, line) }()
	} else {
		listening <- nil
	}
	got, err := p.agents.request(ctx, line)
	if err := errors.Join(err, <-listening); err != nil {
		return err
	}
	p.tell(func() {
		p.answered++
		switch got {
		case fromLedger:
			p.outcome.Replayed++
		case refused:
			p.outcome.Refused++
		case ownAnswer:
		}
	})
	return nil
}

// resume lets the provider listen again once the line's attempt was refused a
// connection, or has come through by one that was open.
func (p *production) resume(ctx context.Context, line Line) error {
	refusedOnce := p.agents.attemptEnded(ctx, line)
	if err := p.server.Resume(); err != nil {
		return err
	}
	return refusedOnce
}

// judge counts effects, waits and doubts when all is over.
func (p *production) judge(ctx context.Context) error {
	if err := p.settled(ctx); err != nil {
		return err
	}
	held := p.effects()
	notes, err := p.service.Notes(ctx)
	if err != nil {
		return fmt.Errorf("counting notes: %w", err)
	}
	for _, n := range notes {
		held[target{note: note{n.Subject, n.Body}, tenant: n.Tenant}]++
	}
	p.outcome.Tally = tally(p.lines, held)
	if p.outcome.UnknownResolved, err = p.agents.doubts(ctx, tenantsOf(p.lines)); err != nil {
		return err
	}
	now := p.progress()
	now.Done = true
	p.report(now)
	return nil
}
