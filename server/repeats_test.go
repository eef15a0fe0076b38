package server

import (
	"fmt"
	"testing"
)

// After a restart callers ask again without saying so. Those that repeat are soon
// looked up before they are claimed, and new ones, when they are the rule again, are
// claimed at once.
func TestUnsaidRepetitionsAreLookedUpFirst(t *testing.T) {
	t.Parallel()
	book, seals := newMemoryLedger(), 0
	s := newFastServer(t, book, quiet(), func(o *Options) { o.ReplayBytes, o.Sealer = -1, plain{&seals} })
	n := 0
	ask := func() (looked, claimed bool) {
		t.Helper()
		reads, opens := book.reads, book.opens
		mustCall(t, s, "acme", refundRequest(fmt.Sprintf("key-%d", n), refundArguments))
		return book.reads > reads, book.opens > opens
	}
	for range 100 {
		n++
		if looked, claimed := ask(); looked || !claimed {
			t.Fatalf("a new one: looked up %t, claimed %t", looked, claimed)
		}
	}
	for i := range 50 {
		n = 1 + i
		looked, claimed := ask()
		if late := i > 20; looked == claimed || late && claimed {
			t.Fatalf("repetition %d: looked up %t, claimed %t", i, looked, claimed)
		}
	}
	n, seals = 60, 0
	if ask(); seals != 0 {
		t.Errorf("a repetition was sealed %d times", seals)
	}
	for i := range 100 {
		n = 1000 + i
		looked, claimed := ask()
		if late := i > 80; !claimed || late && looked {
			t.Fatalf("new one %d: looked up %t, claimed %t", i, looked, claimed)
		}
	}
}
