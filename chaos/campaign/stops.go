package campaign

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/onceward/onceward/chaos/judge"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// stops turns kill switches, and remembers when each was surely set.
type stops struct {
	world   *world
	turning sync.Mutex // one at a time, so that none is cleared by another
	mu      sync.Mutex
	sure    []judge.Stop
}

// stop stops an action type of a tenant for a while. It reports whether it was set.
func (s *stops) stop(ctx context.Context, how shock) bool {
	if !s.turning.TryLock() {
		return false
	}
	defer s.turning.Unlock()
	tenant := tenants()[how.target%len(tenants())]
	action := []string{refunds, invoices, contacts, notes}[how.coin%4]
	m := s.world.serving()[how.target%s.world.Replicas]
	set := func(ctx context.Context, m *member, stopped bool) error {
		ctx, cancel := context.WithTimeout(as(ctx, s.world.keys[tenant].admin), callTimeout)
		defer cancel()
		_, err := m.policy.SetKillSwitch(ctx, &oncewardv1.SetKillSwitchRequest{ActionType: action, Stopped: stopped, Reason: "a drill"})
		return err
	}
	err := set(ctx, m, true)
	from := time.Now()
	if err == nil {
		wait(ctx, how.last)
		s.mu.Lock()
		s.sure = append(s.sure, judge.Stop{Tenant: tenant, ActionType: action, From: from, To: time.Now()})
		s.mu.Unlock()
	}
	// By the owner, since all replicas may be away now; it is in the record all the same.
	mending := context.WithoutCancel(ctx)
	for {
		clearErr := s.world.owner.ClearKillSwitch(mending, ledger.KillSwitch{Tenant: tenant, ActionType: action, SetBy: "ada", Reason: "the drill is over"})
		if clearErr == nil || errors.Is(clearErr, ledger.ErrNotFound) {
			return err == nil
		}
		wait(mending, 200*time.Millisecond)
	}
}
