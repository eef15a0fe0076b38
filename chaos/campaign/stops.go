package campaign

import (
	"context"
	"errors"
	"fmt"
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
func (s *stops) stop(ctx context.Context, how shock) (set bool, err error) {
	if !s.turning.TryLock() {
		return false, nil
	}
	defer s.turning.Unlock()
	tenant := tenants()[how.target%len(tenants())]
	action := []string{refunds, invoices, contacts, notes}[how.coin%4]
	m := s.world.serving()[how.target%s.world.Replicas]
	setting, done := context.WithTimeout(as(ctx, s.world.keys[tenant].admin), callTimeout)
	_, err = m.policy.SetKillSwitch(setting, &oncewardv1.SetKillSwitchRequest{ActionType: action, Stopped: true, Reason: "a drill"})
	done()
	from := time.Now()
	if err == nil {
		wait(ctx, how.last)
		s.mu.Lock()
		s.sure = append(s.sure, judge.Stop{Tenant: tenant, ActionType: action, From: from, To: time.Now()})
		s.mu.Unlock()
	}
	// By the owner, since all replicas may be away now; it is in the record all the same.
	mending, cancel := context.WithTimeout(context.WithoutCancel(ctx), mendPatience)
	defer cancel()
	for {
		clearErr := s.world.owner.ClearKillSwitch(mending, ledger.KillSwitch{Tenant: tenant, ActionType: action, SetBy: "ada", Reason: "the drill is over"})
		if clearErr == nil || errors.Is(clearErr, ledger.ErrNotFound) {
			return err == nil, nil
		}
		if mending.Err() != nil {
			return err == nil, fmt.Errorf("a kill switch of %s stays set: %w", tenant, clearErr)
		}
		wait(mending, 200*time.Millisecond)
	}
}
