package declared

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/onceward/onceward/actions/definition"
)

const (
	// maxPause is the longest that an attempt waits for its turn.
	maxPause = 50 * time.Millisecond
	// busyPause is when to come again where too many writes are under way.
	busyPause = 200 * time.Millisecond
	// maxLearnt bounds how long one answer holds up everybody: after it one may
	// try, and learns again. A limit on one object must not stop all others.
	maxLearnt = time.Minute
	// keptPaces is how many tenants' paces are kept before those are dropped that are
	// as good as new and were not asked for in paceLife: nobody holds such a one. Some
	// 200 bytes each.
	keptPaces = 1024
	paceLife  = time.Minute
)

// paces are the paces of a provider: one for each credential. It is safe for
// concurrent use.
type paces struct {
	rules     definition.Pace
	perTenant bool
	now       func() time.Time

	mu      sync.Mutex
	known   map[string]*pace
	sweepAt int // how many there are when idle ones are dropped
}

func newPaces(rules *definition.Pace, perTenant bool, now func() time.Time) *paces {
	p := &paces{perTenant: perTenant, now: now, known: map[string]*pace{}, sweepAt: keptPaces}
	if rules != nil {
		p.rules = *rules
	}
	return p
}

// of returns the pace of a tenant's credential.
func (p *paces) of(tenant string) *pace {
	if !p.perTenant {
		tenant = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	known := p.known[tenant]
	if known == nil {
		if len(p.known) >= p.sweepAt {
			maps.DeleteFunc(p.known, func(_ string, known *pace) bool { return now.Sub(known.asked) > paceLife && known.idle(now) })
			p.sweepAt = max(keptPaces, 2*len(p.known))
		}
		known = newPace(p.rules, p.now)
		p.known[tenant] = known
	}
	known.asked = now
	return known
}

// pace bounds the writes with one credential in this process: how many begin in
// a time, how many are under way, and none before the provider wants one.
type pace struct {
	now      func() time.Time
	limiter  *rate.Limiter // nil: no bound
	interval time.Duration // between two writes
	most     int           // writes under way; zero: no bound
	asked    time.Time     // when it was asked for last; guarded by paces.mu

	mu        sync.Mutex
	underWay  int
	notBefore time.Time // learnt from the provider
	lastTurn  time.Time // given to those who were sent away
}

func newPace(rules definition.Pace, now func() time.Time) *pace {
	p := &pace{now: now, most: rules.Concurrency}
	if rules.Requests > 0 {
		per := rules.Per.Std()
		if per == 0 {
			per = time.Second
		}
		burst := rules.Burst
		if burst == 0 {
			burst = rules.Requests
		}
		p.interval = per / time.Duration(rules.Requests)
		p.limiter = rate.NewLimiter(rate.Every(p.interval), burst)
	}
	return p
}

// idle reports whether a pace is as good as a new one.
func (p *pace) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.underWay == 0 && !p.notBefore.After(now) && !p.lastTurn.After(now) &&
		(p.limiter == nil || p.limiter.TokensAt(now) >= float64(p.limiter.Burst()))
}

// take asks for a turn. It returns release, to be called when the write is over,
// or how long to stay away. It waits no longer than maxPause.
func (p *pace) take(ctx context.Context) (release func(), away time.Duration) {
	pause, away := p.turn()
	if away > 0 {
		return nil, away
	}
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done(): // the sender sees it and sends nothing
		}
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.underWay--
	}), 0
}

func (p *pace) turn() (pause, away time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if held := p.notBefore.Sub(now); held > 0 {
		return 0, held
	}
	if p.most > 0 && p.underWay >= p.most {
		return 0, busyPause
	}
	if p.limiter != nil {
		booked := p.limiter.ReserveN(now, 1)
		if pause = booked.DelayFrom(now); pause > maxPause {
			booked.CancelAt(now)
			return 0, p.sendAway(now, pause)
		}
	}
	p.underWay++
	return pause, 0
}

// sendAway tells each of those who come too early another time, at the pace that
// is allowed, so that they do not all come back at once.
func (p *pace) sendAway(now time.Time, pause time.Duration) time.Duration {
	turn := now.Add(pause)
	if next := p.lastTurn.Add(p.interval); next.After(turn) {
		turn = next
	}
	p.lastTurn = turn
	return turn.Sub(now)
}

// learn keeps everybody away for as long as the provider asks.
func (p *pace) learn(wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := p.now().Add(min(wait, maxLearnt)); until.After(p.notBefore) {
		p.notBefore = until
	}
}
