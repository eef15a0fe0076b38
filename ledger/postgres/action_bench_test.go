package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// What an action costs this side: it is opened, and settled. Bytes and allocations
// are those of the whole process; they depend on how many share a transaction.
func BenchmarkAction(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store, _ := ledgertest.NewStore(b)
			act := func(o ledger.Opening) {
				op, created, err := store.Open(b.Context(), o)
				if err != nil || !created {
					b.Errorf("opened: %v, %v", created, err)
					return
				}
				if op, err = store.Apply(b.Context(), ledgertest.Change(op, ledger.Confirm)); err != nil || op.State != ledger.Succeeded {
					b.Errorf("settled: %s, %v", op.State, err)
				}
			}
			// The connections are made and know the statements.
			each(callers, 4*callers, func(int) { act(ledgertest.Opening(acme)) })
			openings := make([]ledger.Opening, b.N)
			for i := range openings {
				openings[i] = ledgertest.Opening(acme)
			}
			b.ReportAllocs()
			b.ResetTimer()
			each(callers, b.N, func(i int) { act(openings[i]) })
		})
	}
}

// What a duplicate costs whose answer is not in memory.
func BenchmarkGetByKey(b *testing.B) {
	store, _ := ledgertest.NewStore(b)
	const callers = 64
	ops := make([]ledger.Operation, 10*callers)
	each(callers, len(ops), func(i int) {
		ops[i] = ledgertest.Moved(b, store, ledgertest.Open(b, store, ledgertest.Opening(acme)), ledger.Confirm)
	})
	read := func(i int) {
		op, err := store.GetByKey(b.Context(), acme, ops[i%len(ops)].Key)
		if err != nil || op.ID != ops[i%len(ops)].ID || op.State != ledger.Succeeded {
			b.Errorf("read: %s, %v", op.State, err)
		}
	}
	each(callers, len(ops), read)
	b.ReportAllocs()
	b.ResetTimer()
	each(callers, b.N, read)
}

// each does n things, so many at once.
func each(callers, n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}
