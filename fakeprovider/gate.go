package fakeprovider

import "sync"

// Gate holds requests at a chosen point until it is released. Attach it to a
// fault as HoldBefore or HoldAfter. Make it with [NewGate]; it is safe for
// concurrent use and may hold many requests at once.
type Gate struct {
	reachOnce, releaseOnce sync.Once
	reached, released      chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate {
	return &Gate{reached: make(chan struct{}), released: make(chan struct{})}
}

// Reached is closed when the first request stands at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Release opens the gate for ever. Releasing twice is harmless.
func (g *Gate) Release() { g.releaseOnce.Do(func() { close(g.released) }) }

// arrive says that a request stands here and returns what it must wait for.
func (g *Gate) arrive() <-chan struct{} {
	g.reachOnce.Do(func() { close(g.reached) })
	return g.released
}
