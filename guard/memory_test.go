package guard_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/guard"
)

func TestMemoryIsBounded(t *testing.T) {
	var c clock
	m := guard.NewMemory(guard.MemoryOptions{MaxOperations: 3, Keep: time.Hour, Now: c.now})
	op := func(n int) guard.Claims {
		k := claims(t)
		k.OperationID = fmt.Sprint("op-", n)
		return k
	}
	begin := func(n int) (guard.Entry, error) { return m.Begin(t.Context(), op(n), time.Minute) }
	for n := range 3 {
		if e, err := begin(n); err != nil || e.State != guard.Begun {
			t.Fatalf("%d: %+v, %v", n, e, err)
		}
	}
	if _, err := begin(3); !errors.Is(err, guard.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if err := m.Finish(t.Context(), op(0).Operation(), guard.Response{Status: 201}); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour - 1)
	if _, err := begin(3); !errors.Is(err, guard.ErrFull) {
		t.Errorf("finished ones are kept: %v", err)
	}
	c.pass(1)
	if e, err := begin(3); err != nil || e.State != guard.Begun {
		t.Errorf("after Keep: %+v, %v", e, err)
	}
	c.pass(1000 * time.Hour)
	if _, err := begin(4); !errors.Is(err, guard.ErrFull) {
		t.Errorf("what did not end is never forgotten: %v", err)
	}
}
