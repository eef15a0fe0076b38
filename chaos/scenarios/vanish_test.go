package scenarios

import (
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// The way to Postgres falls silent: no connection ends, and nothing comes back, as
// when a primary's machine is cut off or a firewall forgets. There is another way.
// The replica takes it, its reconciler too, while the first one stays silent.
func TestPostgresFallsSilent(t *testing.T) {
	t.Parallel()
	db := ledgertest.NewDatabase(t)
	edges := newEdges(t)
	s := newStage(t, edges, db)
	silent, other := openEdge(t, edges, "first", hostOf(t, db.ServeURL)), openEdge(t, edges, "second", hostOf(t, db.ServeURL))
	r := s.replica(t, withHost(t, db.ServeURL, silent.Address()+","+other.Address())+"&connect_timeout=1")
	l := s.begin(t, "silent", 4, r)
	l.wantMore(t, 4)
	speak, err := silent.Apply(edge.Fault{Kind: edge.HalfOpen})
	if err != nil {
		t.Fatal(err)
	}
	defer speak() // a connection that is closed in order waits for its other end
	began := time.Now()
	l.wantMore(t, 4)
	t.Logf("receipts again after %s", time.Since(began).Round(time.Millisecond))
	// Doubt, which only the reconciler ends.
	heal, err := s.toProvider.Apply(edge.Fault{Kind: edge.Reset, Side: edge.ToClient})
	if err != nil {
		t.Fatal(err)
	}
	l.goOn(20, time.Second)
	heal()
	healed := time.Now()
	l.end()
	s.judge(t, l, healed)
}
