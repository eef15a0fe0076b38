package proof

import (
	"time"

	"github.com/onceward/onceward/actions"
)

// The runner's schedule, as package dispatch and package reconciler have it.
const (
	firstBackoff  = 500 * time.Millisecond
	maxBackoff    = 5 * time.Minute
	maxResolveGap = 5 * time.Minute
	// usualGrace is how much longer a lease is than its attempt, unless the
	// operator says otherwise.
	usualGrace = 15 * time.Second
)

// doubling is the n-th wait, from 0, of a series that doubles up to a bound.
func doubling(first, bound time.Duration, n int) time.Duration {
	return min(first<<min(max(n, 0), 16), bound)
}

// lease is the lease of one attempt: for so long the worker may be the one who
// knows.
func lease(spec actions.Spec) time.Duration { return spec.Timeout + usualGrace }

// replaySchedule is how long after the first send the last attempt can begin, if
// every attempt is left in doubt: by its time-out, or, in the worst case, by its
// worker's death, so that the lease runs out first.
func replaySchedule(spec actions.Spec, ofEach time.Duration) time.Duration {
	var total time.Duration
	for attempt := 1; attempt < spec.MaxAttempts; attempt++ {
		total += ofEach
		if attempt > 1 { // the first doubt is not kept waiting
			total += doubling(firstBackoff, maxBackoff, attempt-2)
		}
	}
	return total
}

// resolveSchedule is how long the reconciler goes on looking at one doubt before
// it asks a person.
func resolveSchedule(spec actions.Spec) time.Duration {
	var total time.Duration
	for look := 1; look < spec.MaxResolves; look++ {
		total += doubling(spec.Contract.Lookup.ReadGap, maxResolveGap, look-1)
	}
	return total
}
