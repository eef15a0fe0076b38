package campaign

import (
	"fmt"

	"github.com/onceward/onceward/chaos/edge"
)

// breakEdge breaks an edge in one way and returns what heals it. coin chooses what
// else there is to choose. Nothing is held up longer than edgeDelay on its way to the
// provider and then let through: that is what its contract says.
func breakEdge(x *edge.Edge, kind edge.Kind, coin int) (heal func(), err error) {
	f := edge.Fault{Kind: kind, Side: []edge.Side{edge.Both, edge.ToServer, edge.ToClient}[coin%3]}
	switch kind {
	case edge.Latency:
		f.Delay = edgeDelay / 2 // once on each way
		f.Jitter = f.Delay / 2
	case edge.Bandwidth:
		f.Rate = 8000
	case edge.Truncate:
		f.Bytes = coin % 2000
	case edge.Slice:
		f.Bytes = 100
	case edge.SlowClose:
		// Connections are kept, so that nobody would close one meanwhile: it breaks off
		// first, and the other end is told late.
		broken, err := x.Apply(edge.Fault{Kind: edge.Truncate, Side: f.Side, Bytes: 1 + coin%2000})
		if err != nil {
			return nil, err
		}
		late, err := x.Apply(f)
		if err != nil {
			broken()
			return nil, err
		}
		return func() { late(); broken() }, nil
	case edge.Cut, edge.HalfOpen, edge.Reset:
	default:
		return nil, fmt.Errorf("campaign: no such fault of an edge: %s", kind)
	}
	return x.Apply(f)
}
