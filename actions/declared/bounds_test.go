package declared

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/definition"
)

// A hundred thousand tenants that write once each leave no more than a few paces
// behind; one that a provider keeps away is not forgotten, nor one that is writing.
func TestPacesAreBounded(t *testing.T) {
	t.Parallel()
	all, now := newTestPaces(&definition.Pace{Requests: 10, Concurrency: 1}, true)
	held, writing := all.of("held"), all.of("writing")
	if release, away := writing.take(t.Context()); release == nil {
		t.Fatalf("away for %s", away)
	}
	for i := range 100_000 {
		if i%100 == 0 {
			now.now = now.now.Add(time.Second)
			held.learn(time.Hour)
		}
		release, away := all.of(fmt.Sprint("t", i)).take(t.Context())
		if release == nil {
			t.Fatalf("away for %s", away)
		}
		release()
		if len(all.known) > 16*keptPaces {
			t.Fatalf("%d paces after %d tenants", len(all.known), i)
		}
	}
	if all.of("held") != held || all.of("writing") != writing {
		t.Error("a pace that holds somebody is forgotten")
	}
}

// Tokens that ended are dropped when there are many, but for those that only their
// own refresh token can renew.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	now := newTick()
	s := newTokens(&authRules{Auth: definition.Auth{OAuth2: &definition.OAuth2Auth{}}}, "", nil, Options{Now: now.Now})
	s.keep("rotated", &token{value: "v", endAt: now.now, configured: "old", refresh: "new"}, now.now)
	s.keep("good", &token{value: "v", endAt: now.now.Add(24 * time.Hour)}, now.now)
	for i := range 100_000 {
		if i%100 == 0 {
			now.now = now.now.Add(time.Second)
		}
		s.keep(fmt.Sprint("t", i), &token{value: "v", endAt: now.now.Add(time.Minute), configured: "c", refresh: "c"}, now.now)
		if len(s.known) > 16*keptTokens {
			t.Fatalf("%d tokens after %d tenants", len(s.known), i)
		}
	}
	if s.known["rotated"] == nil || s.known["good"] == nil {
		t.Error("a token that is still needed is forgotten")
	}
}
