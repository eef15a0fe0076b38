package postgres_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// storesOfBothRoles are stores on one ledger: as the owner, who administers, and
// as who serves.
func storesOfBothRoles(t *testing.T) (owner, serve *postgres.Store, db ledgertest.Database) {
	t.Helper()
	db = ledgertest.NewDatabase(t)
	open := func(url string) *postgres.Store {
		store, err := postgres.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		return store
	}
	return open(db.OwnerURL), open(db.ServeURL), db
}

func TestTenantActive(t *testing.T) {
	t.Parallel()
	owner, serve, _ := storesOfBothRoles(t)
	if _, err := serve.TenantActive(t.Context(), "acme"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("no tenant: %v", err)
	}
	if err := owner.CreateTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for _, active := range []bool{true, false, true} {
		if err := owner.SetTenantActive(t.Context(), "acme", active); err != nil {
			t.Fatal(err)
		}
		if got, err := serve.TenantActive(t.Context(), "acme"); err != nil || got != active {
			t.Errorf("%v, %v; want %v", got, err, active)
		}
	}
}

func TestRotateCredential(t *testing.T) {
	t.Parallel()
	owner, serve, _ := storesOfBothRoles(t)
	if err := owner.CreateTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	hash := func(of string) []byte { h := sha256.Sum256([]byte(of)); return h[:] }
	add := func(id string, lives time.Duration) {
		t.Helper()
		c := postgres.Credential{Tenant: "acme", KeyID: id, Hash: hash(id), Actor: "planner", Roles: []string{"agent", "auditor"}}
		if lives != 0 {
			c.ExpiresAt = time.Now().Add(lives)
		}
		if err := owner.AddCredential(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	get := func(id string) postgres.Credential {
		t.Helper()
		c, err := serve.Credential(t.Context(), "acme", id)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	near := func(got, want time.Time) bool { return got.Sub(want).Abs() < time.Minute }
	for name, test := range map[string]struct {
		lives, overlap, expires time.Duration
		former, next            time.Duration // how long they live then; 0: for ever
	}{
		"for ever":        {0, 24 * time.Hour, 0, 24 * time.Hour, 0},
		"with an end":     {0, 24 * time.Hour, 48 * time.Hour, 24 * time.Hour, 48 * time.Hour},
		"as the former":   {720 * time.Hour, 24 * time.Hour, 0, 24 * time.Hour, 720 * time.Hour},
		"ends sooner":     {time.Hour, 24 * time.Hour, 0, time.Hour, time.Hour},
		"without overlap": {0, 0, 0, -time.Millisecond, 0},
	} {
		former, next := "former "+name, "next "+name
		add(former, test.lives)
		c := postgres.Credential{KeyID: next, Hash: hash(next)}
		if test.expires > 0 {
			c.ExpiresAt = time.Now().Add(test.expires)
		}
		made, err := owner.RotateCredential(t.Context(), "acme", former, c, test.overlap)
		if err != nil || made.Actor != "planner" || !slices.Equal(made.Roles, []string{"agent", "auditor"}) || !made.Usable {
			t.Fatalf("%s: %+v, %v", name, made, err)
		}
		got := get(next)
		if !got.Usable || !bytes.Equal(got.Hash, hash(next)) || got.Actor != "planner" || got.ExpiresAt.IsZero() != (test.next == 0) || test.next != 0 && !near(got.ExpiresAt, time.Now().Add(test.next)) {
			t.Errorf("%s: the new one is %+v", name, got)
		}
		if old := get(former); !near(old.ExpiresAt, time.Now().Add(test.former)) || old.Usable != (test.former > 0) {
			t.Errorf("%s: the former is %+v", name, old)
		}
	}
	add("revoked", 0)
	if err := owner.RevokeCredential(t.Context(), "acme", "revoked"); err != nil {
		t.Fatal(err)
	}
	add("expired", -time.Hour)
	for _, id := range []string{"revoked", "expired", "none"} {
		if _, err := owner.RotateCredential(t.Context(), "acme", id, postgres.Credential{KeyID: "x", Hash: hash("x")}, time.Hour); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := serve.Credential(t.Context(), "acme", "x"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a key was made in the place of none: %v", err)
	}
}

// A token is used once, by whoever of many comes first, in each tenant, and is
// forgotten when its time is over.
func TestUseToken(t *testing.T) {
	t.Parallel()
	_, serve, db := storesOfBothRoles(t)
	token, later := sha256.Sum256([]byte("token")), time.Now().Add(time.Hour)
	var first atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if ok, err := serve.UseToken(t.Context(), "acme", token, later); err != nil {
				t.Error(err)
			} else if ok {
				first.Add(1)
			}
		})
	}
	all.Wait()
	if n := first.Load(); n != 1 {
		t.Errorf("%d were the first", n)
	}
	if ok, err := serve.UseToken(t.Context(), "globex", token, later); err != nil || !ok {
		t.Errorf("another tenant's: %v, %v", ok, err)
	}
	for i := range byte(30) {
		if ok, err := serve.UseToken(t.Context(), "acme", [32]byte{i}, time.Now().Add(-time.Second)); err != nil || !ok {
			t.Errorf("%d: %v, %v", i, ok, err)
		}
	}
	// Each use forgets those before it whose time is over, and none else.
	if n := db.Count(t, `SELECT count(*) FROM used_tokens WHERE tenant_id = 'acme'`); n != 2 {
		t.Errorf("%d tokens are kept, want the one that is good and the last one", n)
	}
	if ok, err := serve.UseToken(t.Context(), "acme", token, later); err != nil || ok {
		t.Errorf("the one that is good is good again: %v, %v", ok, err)
	}
}
