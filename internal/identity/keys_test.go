package identity

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

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
				store := newStore(key)
				a := New(Options{Store: store})
				for range 100 {
					p, err := a.Authenticate(t.Context(), bearer(key.Text()))
					if err != nil || p.Tenant != "acme" || p.Actor != "planner" || !p.Has(policy.Agent) {
						t.Fatalf("got %+v, %v", p, err)
					}
				}
				if n := store.count(); n != 1 {
					t.Errorf("%d reads for 100 requests", n)
				}
				store.put(key, test.usable, test.active)
				time.Sleep(recentLife)
				if _, err := a.Authenticate(t.Context(), bearer(key.Text())); !errors.Is(err, test.want) {
					t.Errorf("a second later: %v, want %v", err, test.want)
				}
				// And back: it works within a second as well.
				store.put(key, true, true)
				time.Sleep(recentLife)
				if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
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
		store := newStore(key)
		store.delay = 3 * time.Second
		a := New(Options{Store: store})
		first := make(chan error, 1)
		go func() {
			_, err := a.Authenticate(t.Context(), bearer(key.Text()))
			first <- err
		}()
		synctest.Wait()
		store.put(key, false, true)
		time.Sleep(2 * time.Second)
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); !errors.Is(err, server.ErrBadCredential) {
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
		store := newStore(key)
		a := New(Options{Store: store})
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
			t.Fatal(err)
		}
		other := apikey.New("acme").Text()
		secret := other[len(other)-20:]
		for _, text := range []string{
			key.String() + "." + secret, key.String() + ".", key.String(), key.Text() + "0", key.Text() + "\n", "", ".", key.Text()[3:],
			"ow_globex" + key.Text()[len("ow_acme"):],
		} {
			if p, err := a.Authenticate(t.Context(), bearer(text)); !errors.Is(err, server.ErrBadCredential) {
				t.Errorf("%q: got %+v, %v", text, p, err)
			}
		}
	})
}

func TestRequestsThatComeTogetherShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := apikey.New("acme")
		store := newStore(key)
		store.delay = 10 * time.Millisecond
		a := New(Options{Store: store})
		leaving, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { // the first one leaves: the others are served all the same
			_, err := a.Authenticate(leaving, bearer(key.Text()))
			left <- err
		}()
		synctest.Wait()
		var others sync.WaitGroup
		for range 50 {
			others.Go(func() {
				if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
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
		store := newStore(key)
		a := New(Options{Store: store})
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
			t.Fatal(err)
		}
		store.set(func() { store.err = ledger.ErrUnavailable })
		time.Sleep(recentLife - time.Millisecond)
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
			t.Errorf("within the second: %v", err)
		}
		time.Sleep(time.Millisecond)
		for range 2 {
			if _, err := a.Authenticate(t.Context(), bearer(key.Text())); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("after it: %v", err)
			}
		}
		store.set(func() { store.err = nil })
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
			t.Errorf("back again: %v", err)
		}
	})
}

// A key works as soon as it is made, whoever has asked for it before.
func TestUnknownKeysAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		a := New(Options{Store: store})
		key := apikey.New("acme")
		for range 1000 {
			if _, err := a.Authenticate(t.Context(), bearer(apikey.New("acme").Text())); !errors.Is(err, server.ErrBadCredential) {
				t.Fatalf("got %v", err)
			}
		}
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); !errors.Is(err, server.ErrBadCredential) {
			t.Fatalf("got %v", err)
		}
		if n := len(a.keys.recent.young) + len(a.keys.recent.old); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
		store.put(key, true, true)
		if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
			t.Error(err)
		}
	})
}

func TestRememberedKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		a := New(Options{Store: store})
		for range 3 * maxYoung {
			key := apikey.New("acme")
			store.put(key, true, true)
			if _, err := a.Authenticate(t.Context(), bearer(key.Text())); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(a.keys.recent.young) + len(a.keys.recent.old); n > 2*maxYoung {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

// A key whose text names another tenant than the stored one is refused, even if
// a store got it wrong.
func TestAKeyNamesItsOwnTenant(t *testing.T) {
	t.Parallel()
	key := apikey.New("acme")
	store := newStore(key)
	wrong := store.keys[key.String()]
	wrong.Tenant = "globex"
	store.keys[key.String()] = wrong
	_, err := New(Options{Store: store}).Authenticate(t.Context(), bearer(key.Text()))
	wantRefused(t, err, "another tenant")
}

// What is proved is told to the log, what is not is not.
func TestRefusedKeysProveTheirTenant(t *testing.T) {
	t.Parallel()
	key, revoked := apikey.New("acme"), apikey.New("acme")
	store := newStore(key)
	store.put(revoked, false, true)
	a := New(Options{Store: store})
	_, err := a.Authenticate(t.Context(), bearer(revoked.Text()))
	var refused *server.CredentialError
	if !errors.As(err, &refused) || refused.Tenant != "acme" || refused.Actor != "planner" {
		t.Errorf("revoked: %+v", refused)
	}
	_, err = a.Authenticate(t.Context(), bearer(revoked.String()+".0000000000000000000000000000000v"))
	if !errors.As(err, &refused) || refused.Tenant != "" || refused.Actor != "" {
		t.Errorf("wrong secret: %+v", refused)
	}
}

func TestAPIKeysCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	key := apikey.New("acme")
	f := &File{}
	f.rules.Store(&rules{noKeys: true})
	_, err := New(Options{Store: newStore(key), File: f}).Authenticate(t.Context(), bearer(key.Text()))
	wantRefused(t, err, "switched off")
}

// The tenant of a token or certificate stops within a second, and requests share
// the reads.
func TestATenantStopsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		a := New(Options{Store: store})
		p := policy.Principal{Tenant: "acme", Actor: "a"}
		for range 100 {
			if err := a.checkTenant(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		if n := store.count(); n != 1 {
			t.Errorf("%d reads for 100 requests", n)
		}
		store.set(func() { store.tenants["acme"] = false })
		time.Sleep(recentLife)
		err := a.checkTenant(t.Context(), p)
		var refused *server.CredentialError
		if !errors.As(err, &refused) || !errors.Is(err, server.ErrTenantInactive) || refused.Tenant != "acme" {
			t.Errorf("a second later: %v", err)
		}
		store.set(func() { delete(store.tenants, "acme") })
		time.Sleep(recentLife)
		wantRefused(t, a.checkTenant(t.Context(), p), "no tenant")
		store.set(func() { store.tenants["acme"] = true }) // what does not exist is not remembered
		if err := a.checkTenant(t.Context(), p); err != nil {
			t.Error(err)
		}
		store.set(func() { store.err = ledger.ErrUnavailable })
		time.Sleep(recentLife)
		if err := a.checkTenant(t.Context(), p); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("while the ledger is away: %v", err)
		}
	})
}
