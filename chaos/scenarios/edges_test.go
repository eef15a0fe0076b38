package scenarios

import (
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// faults are what an edge suffers in turn: every kind, and half of a connection.
func faults() []edge.Fault {
	return []edge.Fault{
		{Kind: edge.Latency, Delay: 200 * time.Millisecond, Jitter: 100 * time.Millisecond},
		{Kind: edge.Cut},
		{Kind: edge.HalfOpen},
		{Kind: edge.HalfOpen, Side: edge.ToClient}, // requests arrive, answers do not
		{Kind: edge.SlowClose, Delay: 300 * time.Millisecond},
		{Kind: edge.Bandwidth, Rate: 4000},
		{Kind: edge.Reset, Side: edge.ToClient},
		{Kind: edge.Truncate, Side: edge.ToClient, Bytes: 100},
		{Kind: edge.Slice, Bytes: 7},
	}
}

// suffer lets one edge suffer everything under load, and judges after each.
func suffer(t *testing.T, s *stage, x *edge.Edge, begin func(name string) *load) {
	t.Helper()
	for _, f := range faults() {
		t.Run(f.String(), func(t *testing.T) {
			l := begin(string(f.Kind) + "_" + string(f.Side))
			l.wantMore(t, 2)
			heal, err := x.Apply(f)
			if err != nil {
				t.Fatal(err)
			}
			l.goOn(40, time.Second)
			heal()
			healed := time.Now()
			l.wantMore(t, 2)
			l.end()
			s.judge(t, l, healed)
		})
	}
}

func TestCallerEdge(t *testing.T) {
	t.Parallel()
	edges := newEdges(t)
	s := newStage(t, edges, ledgertest.NewDatabase(t))
	r := s.replica(t, "")
	x := openEdge(t, edges, "caller", r.Address)
	broken := s.through(t, x)
	suffer(t, s, x, func(name string) *load { return s.begin(t, name, 4, broken, r) })
}

func TestProviderEdge(t *testing.T) {
	t.Parallel()
	s := newStage(t, newEdges(t), ledgertest.NewDatabase(t))
	r := s.replica(t, "")
	suffer(t, s, s.toProvider, func(name string) *load { return s.begin(t, name, 4, r) })
}

// Two replicas, of which one has a ledger that is hard to reach.
func TestPostgresEdge(t *testing.T) {
	t.Parallel()
	edges := newEdges(t)
	db := ledgertest.NewDatabase(t)
	s := newStage(t, edges, db)
	x := openEdge(t, edges, "postgres", hostOf(t, db.ServeURL))
	broken, r := s.replica(t, withHost(t, db.ServeURL, x.Address())), s.replica(t, "")
	suffer(t, s, x, func(name string) *load { return s.begin(t, name, 4, broken, r) })
}
