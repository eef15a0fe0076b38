package campaign

import (
	"math"
	"math/rand/v2"
	"time"
)

// habit is how a caller asks.
type habit int

const (
	asks    habit = iota // once, and again after errors
	bursts               // several times at one moment, on several replicas
	leaves               // before the answer, and asks again elsewhere
	changes              // other arguments under the same key
	reads                // what became of it
	cancels              // what was not sent yet
)

// mostDuplicates are the calls of the largest burst.
const mostDuplicates = 6

// step is one thing that a caller does.
type step struct {
	at     time.Duration // since the beginning
	goal   int
	habit  habit
	copies int           // of a burst
	leave  time.Duration // after which a caller leaves
	words  int           // differ where a model rephrases
	first  int           // replica to ask first, of any number
}

// plan gives the steps of one caller, one after the other. The seed decides them.
type plan struct {
	random  *rand.Rand
	at      time.Duration
	gap     time.Duration // mean time between two steps of the caller
	newGoal float64       // goals that come up in a second
}

// planOf is the plan of a caller.
func planOf(seed uint64, caller int, o Options) *plan {
	return &plan{
		random:  stream(seed, streamCallers, caller),
		gap:     time.Duration(float64(o.Clients) / o.Rate * float64(time.Second)),
		newGoal: o.Rate / 3,
	}
}

// popularity is how much less a goal is asked for than the one before it: new goals
// get most calls, and old ones never none.
const popularity = 1.3

// next is the next step of the caller.
func (p *plan) next() step {
	p.at += time.Duration(p.random.ExpFloat64() * float64(p.gap))
	newest := int(p.at.Seconds() * p.newGoal)
	// How far behind the newest: zipf, from a uniform number.
	behind := int(math.Pow(1-p.random.Float64(), -1/popularity)) - 1
	s := step{at: p.at, goal: max(0, newest-behind), words: p.random.IntN(4), first: p.random.IntN(1 << 16)}
	s.habit = weighed(p.random, []habit{asks, bursts, leaves, changes, reads, cancels}, 56, 14, 9, 9, 9, 3)
	s.copies = 2 + p.random.IntN(mostDuplicates-1)
	s.leave = time.Duration(p.random.Int64N(int64(300*time.Millisecond))) + time.Millisecond
	return s
}
