package server

import (
	"fmt"
	"testing"
)

// After a restart planners ask again without saying so. A tenant's duplicates are
// soon looked up before they are claimed, and new requests, when they are the rule
// again, are claimed at once. Other tenants do not pay for it.
func TestDuplicatesThatDoNotSaySo(t *testing.T) {
	t.Parallel()
	book, seals := newMemoryLedger(), 0
	s := newFastServer(t, book, quiet(), func(o *Options) { o.ReplayBytes, o.Sealer = -1, plain{&seals} })
	ask := func(tenant string, n int) (looked, claimed bool) {
		t.Helper()
		reads, opens := book.reads, book.opens
		mustCall(t, s, tenant, refundRequest(fmt.Sprintf("key-%d", n), refundArguments))
		return book.reads > reads, book.opens > opens
	}
	for n := range 100 {
		if looked, claimed := ask("acme", n); looked || !claimed {
			t.Fatalf("a new one: looked up %t, claimed %t", looked, claimed)
		}
	}
	for n := range 50 {
		looked, claimed := ask("acme", n)
		if late := n > 20; looked == claimed || late && claimed {
			t.Fatalf("duplicate %d: looked up %t, claimed %t", n, looked, claimed)
		}
	}
	seals = 0
	if ask("acme", 60); seals != 0 {
		t.Errorf("a duplicate was sealed %d times", seals)
	}
	other := "globex"
	for n := 0; s.duplicates.of(other) == s.duplicates.of("acme"); n++ { // a seed by which they share a group
		other = fmt.Sprintf("globex-%d", n)
	}
	if looked, claimed := ask(other, 1); looked || !claimed {
		t.Errorf("another tenant's: looked up %t, claimed %t", looked, claimed)
	}
	for n := range 100 {
		looked, claimed := ask("acme", 1000+n)
		if late := n > 80; !claimed || late && looked {
			t.Fatalf("new one %d: looked up %t, claimed %t", n, looked, claimed)
		}
	}
}
