package demo

import (
	"context"

	"github.com/onceward/onceward/fakeprovider"
)

// killPoint is a moment at which the process is killed: while the provider has
// the first call of a line's action in its hands.
type killPoint struct {
	// applied: the provider has acted on the call; else it acts on it after the
	// process is dead.
	applied bool
	gate    *fakeprovider.Gate
}

// killPoints chooses up to n lines, spread over the trace, that are the first
// of their action and cause a call which the provider receives and does not
// refuse. They alternate between a kill before the provider acts and one after.
func killPoints(lines []Line, n int) map[int]killPoint {
	var candidates []int
	seen := map[string]bool{}
	for _, line := range lines {
		first := !seen[line.Action]
		seen[line.Action] = true
		if first && !sheltered(line) && !line.target.local() {
			candidates = append(candidates, line.Number)
		}
	}
	n = min(n, len(candidates))
	points := map[int]killPoint{}
	for i := range n {
		points[candidates[i*len(candidates)/n]] = killPoint{applied: i%2 == 0, gate: fakeprovider.NewGate()}
	}
	return points
}

// sheltered reports whether no kill must meet a line: the provider refuses it,
// and a refusal that comes after a doubt proves nothing about the call before,
// so that it would end with a person; or the provider is away, for as long as it
// takes the one attempt to find out.
func sheltered(line Line) bool {
	return line.Fault.Kind == fakeprovider.Reject || line.Fault.Kind == fakeprovider.RefuseConnection
}

// gates are where a call stands still for its kill.
func (k killPoint) gates() (before, after *fakeprovider.Gate) {
	if k.applied {
		return nil, k.gate
	}
	return k.gate, nil
}

// execute waits until the call is in the provider's hands, kills the process,
// lets the provider go on, and starts the process again. It returns false when
// the play is over first. turn takes one token: deaths come one at a time.
func (k killPoint) execute(ctx context.Context, over <-chan struct{}, service Service, turn chan struct{}) (killed bool, err error) {
	defer k.gate.Release()
	select {
	case <-k.gate.Reached():
	case <-over:
		return false, nil
	}
	turn <- struct{}{}
	defer func() { <-turn }()
	if err := service.Kill(); err != nil {
		return false, err
	}
	k.gate.Release()
	return true, service.Start(ctx)
}
