package fakeprovider

import (
	"sync"
	"time"
)

// keyring is the provider's memory of idempotency keys. It is safe for
// concurrent use.
type keyring struct {
	window time.Duration

	mu      sync.Mutex
	entries map[string]*keyEntry
}

// keyEntry is one key in use. The first request reserves it; a later one with
// the same body gets the stored answer.
type keyEntry struct {
	bodySHA256 string
	firstUse   time.Time
	done       bool
	stored     answer
}

type keyVerdict int

const (
	keyFresh    keyVerdict = iota // reserved: settle or forget must follow
	keyReplay                     // the stored answer is returned
	keyInFlight                   // the first request has not finished
	keyMismatch                   // the key came with another body
)

// begin reserves a key, or says why the request must not be executed.
func (k *keyring) begin(key, bodySHA256 string, now time.Time) (keyVerdict, answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, known := k.entries[key]
	if known && e.done && now.Sub(e.firstUse) >= k.window {
		known = false // forgotten: the next use is a new request
	}
	switch {
	case !known:
		k.entries[key] = &keyEntry{bodySHA256: bodySHA256, firstUse: now}
		return keyFresh, answer{}
	case e.bodySHA256 != bodySHA256:
		return keyMismatch, answer{}
	case !e.done:
		return keyInFlight, answer{}
	}
	return keyReplay, e.stored
}

// settle stores the answer of a reserved key.
func (k *keyring) settle(key string, a answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[key]
	e.done, e.stored = true, a
}

// forget gives a reserved key back, as if it had never come.
func (k *keyring) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.entries, key)
}
