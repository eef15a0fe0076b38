package fakeprovider

import (
	"sync"
	"time"
)

// keyring is the provider's memory of idempotency keys. It is safe for
// concurrent use.
type keyring struct {
	mu      sync.Mutex
	entries map[scopedKey]*keyEntry
}

type scopedKey struct{ scope, key string }

// keyEntry is one key in use. The first request reserves it; a later one that
// agrees with it gets the stored answer.
type keyEntry struct {
	compared string // what a duplicate must agree in
	firstUse time.Time
	working  int // requests that are executed under it
	done     bool
	over     chan struct{} // closed when done, or forgotten
	stored   stored
}

// stored is an answer that is kept under a key.
type stored struct {
	answer  Answer
	pending *object // of an accepted write: a replay may tell its newest state
}

type keyVerdict int

const (
	keyFresh    keyVerdict = iota // reserved: settle or forget must follow
	keyReplay                     // the stored answer is returned
	keyInFlight                   // the first request has not finished
	keyMismatch                   // the key came with something else
)

// verdict is what becomes of a key that comes in.
type verdict struct {
	is     keyVerdict
	stored stored
	over   <-chan struct{} // of keyInFlight: closed when the first is done
}

// begin reserves a key, or says why the request must not be executed.
func (k *keyring) begin(rules *Keys, key, compared string, now time.Time) verdict {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := scopedKey{rules.Scope, key}
	e, known := k.entries[name]
	if known && e.done && rules.Window > 0 && now.Sub(e.firstUse) >= rules.Window {
		known = false // forgotten: the next use is a new request
	}
	switch {
	case !known:
		k.entries[name] = &keyEntry{compared: compared, firstUse: now, working: 1, over: make(chan struct{})}
		return verdict{is: keyFresh}
	case e.compared != compared:
		return verdict{is: keyMismatch}
	case !e.done && rules.InFlight == InFlightExecutes:
		e.working++
		return verdict{is: keyFresh}
	case !e.done:
		return verdict{is: keyInFlight, over: e.over}
	}
	return verdict{is: keyReplay, stored: e.stored}
}

// settle stores the answer of a reserved key. Of several that were executed at
// once, the last one has it.
func (k *keyring) settle(rules *Keys, key string, s stored) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[scopedKey{rules.Scope, key}]
	e.working--
	e.stored = s
	if !e.done {
		e.done = true
		close(e.over)
	}
}

// forget gives a reserved key back, as if it had never come. It stays while
// another request is executed under it, and where one was settled.
func (k *keyring) forget(rules *Keys, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := scopedKey{rules.Scope, key}
	e := k.entries[name]
	e.working--
	if !e.done && e.working == 0 {
		delete(k.entries, name)
		close(e.over)
	}
}
