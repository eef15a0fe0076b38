package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

// keys is a store of API keys that counts and delays its reads.
type keys struct {
	mu     sync.Mutex
	byName map[string]postgres.Credential
	err    error
	delay  time.Duration
	reads  int
}

func (k *keys) Credential(ctx context.Context, tenant, keyID string) (postgres.Credential, error) {
	k.mu.Lock()
	k.reads++
	c, ok := k.byName["ow_"+tenant+"."+keyID]
	err, delay := k.err, k.delay
	k.mu.Unlock()
	select {
	case <-time.After(delay): // what was read is as old as that
	case <-ctx.Done():
		return postgres.Credential{}, ledger.ErrUnavailable
	}
	switch {
	case err != nil:
		return postgres.Credential{}, err
	case !ok:
		return postgres.Credential{}, ledger.ErrNotFound
	}
	return c, nil
}

// put makes or changes a key as it is stored.
func (k *keys) put(key apikey.Key, usable, active bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	hash := key.Hash()
	k.byName[key.String()] = postgres.Credential{
		Tenant: key.Tenant, KeyID: key.ID, Hash: hash[:], Actor: "planner", Roles: []string{"agent"}, Usable: usable, TenantActive: active,
	}
}

func (k *keys) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *keys) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reads
}

func newKeys(made ...apikey.Key) *keys {
	k := &keys{byName: map[string]postgres.Credential{}}
	for _, key := range made {
		k.put(key, true, true)
	}
	return k
}

func TestARevokedKeyStopsWithinASecond(t *testing.T) {
	for name, test := range map[string]struct {
		usable, active bool
		want           error
	}{
		"revoked key":     {false, true, server.ErrBadCredential},
		"disabled tenant": {true, false, server.ErrTenantInactive},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key := apikey.New("acme")
				store := newKeys(key)
				a := newAPIKeys(store)
				for range 100 {
					p, err := a.Authenticate(t.Context(), key.Text())
					if err != nil || p.Tenant != "acme" || p.Actor != "planner" || !p.Has(policy.Agent) {
						t.Fatalf("got %+v, %v", p, err)
					}
				}
				if n := store.count(); n != 1 {
					t.Errorf("%d reads for 100 requests", n)
				}
				store.put(key, test.usable, test.active)
				time.Sleep(keyLife)
				if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, test.want) {
					t.Errorf("a second later: %v, want %v", err, test.want)
				}
				// And back: it works within a second as well.
				store.put(key, true, true)
				time.Sleep(keyLife)
				if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A read that hangs is no way around the second: who asks after the key was
// revoked is not let in by what was read before.
func TestASlowReadIsNotSharedWithThoseWhoComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := apikey.New("acme")
		store := newKeys(key)
		store.delay = 3 * time.Second
		a := newAPIKeys(store)
		first := make(chan error, 1)
		go func() {
			_, err := a.Authenticate(t.Context(), key.Text())
			first <- err
		}()
		synctest.Wait()
		store.put(key, false, true)
		time.Sleep(2 * time.Second)
		if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, server.ErrBadCredential) {
			t.Errorf("got %v", err)
		}
		if err := <-first; err != nil {
			t.Errorf("who asked before: %v", err)
		}
	})
}

// The name of a key, which is no secret, does not let anybody in.
func TestTheSecretIsComparedWhenTheKeyIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := apikey.New("acme")
		store := newKeys(key)
		a := newAPIKeys(store)
		if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
			t.Fatal(err)
		}
		other := apikey.New("acme").Text()
		secret := other[len(other)-20:]
		for _, text := range []string{
			key.String() + "." + secret, key.String() + ".", key.String(), key.Text() + "0", key.Text() + "\n", "", ".", key.Text()[3:],
			"ow_globex" + key.Text()[len("ow_acme"):],
		} {
			if p, err := a.Authenticate(t.Context(), text); !errors.Is(err, server.ErrBadCredential) {
				t.Errorf("%q: got %+v, %v", text, p, err)
			}
		}
	})
}

func TestRequestsThatComeTogetherShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := apikey.New("acme")
		store := newKeys(key)
		store.delay = 10 * time.Millisecond
		a := newAPIKeys(store)
		leaving, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { // the first one leaves: the others are served all the same
			_, err := a.Authenticate(leaving, key.Text())
			left <- err
		}()
		synctest.Wait()
		var others sync.WaitGroup
		for range 50 {
			others.Go(func() {
				if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		leave()
		others.Wait()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		if n := store.count(); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestNobodyIsLetInWhileTheLedgerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := apikey.New("acme")
		store := newKeys(key)
		a := newAPIKeys(store)
		if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
			t.Fatal(err)
		}
		store.fail(ledger.ErrUnavailable)
		time.Sleep(keyLife - time.Millisecond)
		if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
			t.Errorf("within the second: %v", err)
		}
		time.Sleep(time.Millisecond)
		for range 2 {
			if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("after it: %v", err)
			}
		}
		store.fail(nil)
		if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
			t.Errorf("back again: %v", err)
		}
	})
}

// A key works as soon as it is made, whoever has asked for it before.
func TestUnknownKeysAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newKeys()
		a := newAPIKeys(store)
		key := apikey.New("acme")
		for range 1000 {
			if _, err := a.Authenticate(t.Context(), apikey.New("acme").Text()); !errors.Is(err, server.ErrBadCredential) {
				t.Fatalf("got %v", err)
			}
		}
		if _, err := a.Authenticate(t.Context(), key.Text()); !errors.Is(err, server.ErrBadCredential) {
			t.Fatalf("got %v", err)
		}
		if n := len(a.young) + len(a.old); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
		store.put(key, true, true)
		if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
			t.Error(err)
		}
	})
}

func TestRememberedKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newKeys()
		a := newAPIKeys(store)
		for range 3 * maxYoungKeys {
			key := apikey.New("acme")
			store.put(key, true, true)
			if _, err := a.Authenticate(t.Context(), key.Text()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(a.young) + len(a.old); n > 2*maxYoungKeys {
			t.Errorf("%d keys are remembered", n)
		}
	})
}
