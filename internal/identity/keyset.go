package identity

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// keysRefresh is how old an issuer's keys may be before they are read anew,
	// beside the requests: a key that the issuer withdraws stops soon after.
	keysRefresh = 5 * time.Minute
	// keysStale is how old they may be before requests wait for that: where nobody
	// comes for a while nothing is read, and a key that was withdrawn meanwhile must
	// not open the door to the first who does.
	keysStale = 2 * keysRefresh
	// keysUsable is how long known keys are good while their issuer does not
	// answer. It bounds how long a withdrawn key could live by keeping us from the
	// issuer.
	keysUsable = time.Hour
	// keysGap is the least time between two reads, whoever asks: a token can name
	// any key, and must not make us ask its issuer at will. A new key is known at
	// most so much later than it could be.
	keysGap = 10 * time.Second
	// keysTimeout bounds one read, and so how long a request waits for one.
	keysTimeout = 4 * time.Second
)

// keySet is what an issuer's keys are, as far as is known. It never makes two
// reads at once, nor two within keysGap. It is safe for concurrent use.
type keySet struct {
	fetch func(ctx context.Context) ([]jose.JSONWebKey, error)
	log   *slog.Logger

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	read    time.Time     // when the read of keys began; zero: there was none
	tried   time.Time     // when the last read began
	err     error         // of the last read
	running chan struct{} // closed when the read under way ends; nil: none is
}

// find returns the keys that a token may be signed with: those of the id that it
// names, or all where it names none. It waits for at most one read. It fails with
// server.ErrCannotAuthenticate where the issuer's keys are not known well enough
// to say that a key is none of them.
func (k *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	for {
		found, reading, err := k.look(id)
		if reading == nil {
			return found, err
		}
		select {
		case <-reading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns keys, or an error, or what to wait for.
func (k *keySet) look(id string) (found []jose.JSONWebKey, reading <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	usable := !k.read.IsZero() && now.Sub(k.read) < keysUsable
	if usable {
		found = withID(k.keys, id)
	}
	switch {
	case len(found) > 0:
		age := now.Sub(k.read)
		if age >= keysRefresh && k.start(now) && age >= keysStale {
			return nil, k.running, nil
		}
		return found, nil, nil
	case k.start(now):
		return nil, k.running, nil
	case usable && k.err == nil:
		return nil, nil, refuse("the issuer has no key with the id of the token's, or none at all")
	default:
		return nil, nil, cannot("the keys of the issuer are not known: %v", k.err)
	}
}

// start begins a read, unless one was begun just now, and says whether one is
// under way.
func (k *keySet) start(now time.Time) bool {
	if k.running != nil {
		return true
	}
	if !k.tried.IsZero() && now.Sub(k.tried) < keysGap {
		return false
	}
	done := make(chan struct{})
	k.tried, k.running = now, done
	go func() {
		// Not the caller's: it is for everybody who waits.
		ctx, cancel := context.WithTimeout(context.Background(), keysTimeout)
		defer cancel()
		keys, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err != nil:
			k.log.Warn("the keys of an issuer could not be read; those that are known are good for a while", "error", err, "known", len(k.keys), "read_at", k.read)
		case k.err != nil:
			k.log.Info("the keys of an issuer are known again")
		}
		if err == nil {
			k.keys, k.read = keys, now
		}
		k.err, k.running = err, nil
		close(done)
	}()
	return true
}

// warm reads the keys before somebody needs them.
func (k *keySet) warm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.start(time.Now())
}

func withID(keys []jose.JSONWebKey, id string) []jose.JSONWebKey {
	if id == "" {
		return keys
	}
	var found []jose.JSONWebKey
	for _, key := range keys {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}
