package identity

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/server"
)

// publisher is an issuer's key set that tests change.
type publisher struct {
	mu    sync.Mutex
	ids   []string
	err   error
	delay time.Duration
	reads int
}

func (p *publisher) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	p.mu.Lock()
	p.reads++
	ids, err, delay := p.ids, p.err, p.delay
	p.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var keys []jose.JSONWebKey
	for _, id := range ids {
		keys = append(keys, jose.JSONWebKey{KeyID: id})
	}
	return keys, err
}

func (p *publisher) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *publisher) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads
}

// keySetTest runs a test on a key set whose keys were read just now.
func keySetTest(t *testing.T, f func(t *testing.T, p *publisher, k *keySet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{ids: []string{"a", "b"}}
		k := &keySet{fetch: p.fetch, log: quiet(t)}
		wantKey(t, k, "a")
		f(t, p, k)
		synctest.Wait()
	})
}

func wantKey(t *testing.T, k *keySet, id string) {
	t.Helper()
	found, err := k.find(t.Context(), id)
	if err != nil || len(found) != 1 || found[0].KeyID != id {
		t.Errorf("key %s: %v, %v", id, found, err)
	}
}

func wantAway(t *testing.T, k *keySet, id string) {
	t.Helper()
	if found, err := k.find(t.Context(), id); !errors.Is(err, server.ErrCannotAuthenticate) || len(found) != 0 {
		t.Errorf("key %s: %v, %v; want that it cannot be said", id, found, err)
	}
}

func wantNoKey(t *testing.T, k *keySet, id string) {
	t.Helper()
	_, err := k.find(t.Context(), id)
	wantRefused(t, err, "no key with the id")
}

// A token names any key it likes: the issuer is asked once in a while, whoever
// asks and however many.
func TestUnknownKeysMakeNoStampede(t *testing.T) {
	keySetTest(t, func(t *testing.T, p *publisher, k *keySet) {
		for range 100 {
			wantNoKey(t, k, "made up")
		}
		if n := p.count(); n != 1 {
			t.Errorf("%d reads within the gap", n)
		}
		time.Sleep(keysGap)
		p.set(func() { p.delay = time.Second })
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { wantNoKey(t, k, "made up") })
		}
		all.Wait()
		if n := p.count(); n != 2 {
			t.Errorf("%d reads after the gap, want one more", n)
		}
	})
}

func TestKeysRotate(t *testing.T) {
	keySetTest(t, func(t *testing.T, p *publisher, k *keySet) {
		time.Sleep(keysGap)
		p.set(func() { p.ids = []string{"b", "c"} })
		wantKey(t, k, "c") // at once: an unknown key is looked for
		wantNoKey(t, k, "a")
		// A key that the issuer takes back stops without anybody asking for another.
		p.set(func() { p.ids = []string{"c"} })
		time.Sleep(keysRefresh)
		wantKey(t, k, "b") // who finds that they are old does not wait
		synctest.Wait()
		time.Sleep(keysGap)
		wantNoKey(t, k, "b")
	})
}

// Where no token came for a while no key was read either: the first who comes is
// judged by what the issuer has now, if it answers.
func TestAWithdrawnKeyIsNotGoodAfterAQuietTime(t *testing.T) {
	keySetTest(t, func(t *testing.T, p *publisher, k *keySet) {
		p.set(func() { p.ids = []string{"b"} })
		time.Sleep(keysStale)
		wantNoKey(t, k, "a")
		wantKey(t, k, "b")
		p.set(func() { p.err, p.ids, p.delay = errors.New("away"), nil, time.Hour })
		time.Sleep(keysStale)
		began := time.Now()
		wantKey(t, k, "b") // nobody can say that it is not
		if waited := time.Since(began); waited != keysTimeout {
			t.Errorf("waited %s for an issuer that hangs", waited)
		}
		began = time.Now()
		wantKey(t, k, "b")
		if waited := time.Since(began); waited != 0 {
			t.Errorf("and then %s more", waited)
		}
	})
}

func TestAnIssuerThatIsAway(t *testing.T) {
	keySetTest(t, func(t *testing.T, p *publisher, k *keySet) {
		p.set(func() { p.err, p.ids = errors.New("away"), nil })
		time.Sleep(keysUsable - time.Millisecond)
		wantKey(t, k, "a")
		synctest.Wait() // the read that this began
		wantAway(t, k, "made up")
		time.Sleep(time.Millisecond)
		wantAway(t, k, "a")
		if n, most := p.count(), 3; n > most {
			t.Errorf("%d reads of an issuer that is away, want at most %d", n, most)
		}
		// And back, after the gap at most.
		p.set(func() { p.err, p.ids = nil, []string{"a"} })
		time.Sleep(keysGap)
		wantKey(t, k, "a")
	})
}

// An issuer that takes a connection and says nothing keeps nobody longer than
// its time, and those who come after that not at all.
func TestNobodyWaitsLongForAnIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{delay: time.Hour}
		k := &keySet{fetch: p.fetch, log: quiet(t)}
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { wantAway(t, k, "a") })
		}
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := k.find(leaving, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who left got %v", err)
		}
		all.Wait()
		if waited := time.Since(began); waited != keysTimeout {
			t.Errorf("waited %s, want %s", waited, keysTimeout)
		}
		wantAway(t, k, "a")
		if waited := time.Since(began); waited != keysTimeout {
			t.Errorf("who came later waited, too: %s in all", waited)
		}
		if n := p.count(); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

// A token that names no key may be signed with each.
func TestTokensWithoutAKeysName(t *testing.T) {
	keySetTest(t, func(t *testing.T, _ *publisher, k *keySet) {
		if found, err := k.find(t.Context(), ""); err != nil || len(found) != 2 {
			t.Errorf("%v, %v", found, err)
		}
	})
}
