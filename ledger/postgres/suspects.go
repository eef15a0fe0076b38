package postgres

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/ledger"
)

// A planner that is refused often comes back at once. An opening that is recorded
// and removed again leaves dead rows, so that who wants what was refused a moment
// ago is answered by reading, as long as the reading refuses him. It decides
// nothing in anybody's favour: where there is room, Open's transaction decides.

// How many counters and intents a store suspects, and how long after the last
// refusal.
const (
	maxSuspects = 4096
	suspectFor  = time.Minute
)

// suspects are the counters and intents of late refusals. The zero value is
// empty and ready; it is safe for concurrent use.
type suspects struct {
	mu    sync.Mutex
	until map[suspect]time.Time
}

// suspect is a counter or an intent.
type suspect struct{ tenant, counter, intent string }

func (s *suspects) add(one suspect) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil || len(s.until) >= maxSuspects {
		// To forget them all costs each one refusal by writing.
		s.until = map[suspect]time.Time{}
	}
	s.until[one] = now.Add(suspectFor)
}

func (s *suspects) has(one suspect) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.until[one]
	if ok && time.Now().After(until) {
		delete(s.until, one)
		return false
	}
	return ok
}

// suspected reports whether something that an opening wants was refused to
// somebody a moment ago.
func (s *Store) suspected(o *ledger.Opening) bool {
	tenant := o.Operation.Tenant
	return slices.ContainsFunc(o.Holds.Charges, func(c ledger.Charge) bool { return s.refusals.has(suspect{tenant: tenant, counter: c.Counter}) }) ||
		slices.ContainsFunc(o.Holds.Fences, func(f ledger.Fence) bool { return s.refusals.has(suspect{tenant: tenant, intent: f.Intent}) })
}

// remember suspects what an opening was refused for.
func (s *Store) remember(tenant string, err error) {
	var exhausted *ledger.BudgetExhaustedError
	var held *ledger.IntentHeldError
	switch {
	case errors.As(err, &exhausted):
		s.refusals.add(suspect{tenant: tenant, counter: exhausted.Use.Counter})
	case errors.As(err, &held):
		s.refusals.add(suspect{tenant: tenant, intent: held.Intent})
	}
}

// plainlyRefused answers an opening by reading, where something that it wants was
// refused a moment ago: with the operation that holds its key, or with why it
// cannot be. done is false where only a transaction can tell.
func (s *Store) plainlyRefused(ctx context.Context, o *ledger.Opening) (op ledger.Operation, done bool, err error) {
	if !s.suspected(o) {
		return ledger.Operation{}, false, nil
	}
	if op, err = s.taken(ctx, o); !errors.Is(err, ledger.ErrNotFound) {
		return op, true, err
	}
	err = s.noRoom(ctx, o)
	return ledger.Operation{}, err != nil, err
}

// plainlyNotCorrected is the same for a correction of an operation as it was read:
// nil where only a transaction can tell.
func (s *Store) plainlyNotCorrected(ctx context.Context, existing ledger.Operation, o *ledger.Opening) error {
	if !s.suspected(o) {
		return nil
	}
	// Whoever comes twice must not be refused for what he holds himself.
	h, err := s.holder(ctx, existing.Tenant, existing.Key)
	switch {
	case err != nil && !errors.Is(err, ledger.ErrNotFound):
		return err
	case err != nil, h.op.ID != existing.ID, h.op.State != existing.State, h.op.Attempt != existing.Attempt, h.op.ArgsHash != existing.ArgsHash:
		return ledger.ErrFenced
	}
	return s.noRoom(ctx, o)
}

// noRoom says, by reading, what an opening cannot have; nil where it may have all.
func (s *Store) noRoom(ctx context.Context, o *ledger.Opening) error {
	uses, err := s.BudgetUse(ctx, o.Operation.Tenant, o.Holds.Charges, "")
	if err != nil {
		return err
	}
	for _, use := range uses {
		if exceeds(use) {
			return &ledger.BudgetExhaustedError{Use: use}
		}
	}
	held, err := s.IntentHolder(ctx, o.Operation.Tenant, o.Holds.Fences, o.Operation.DistinctFrom)
	if held != nil {
		return held
	}
	return err
}

// exceeds reports whether an amount does not fit.
func exceeds(u ledger.BudgetUse) bool {
	used, ok1 := new(big.Rat).SetString(u.Used)
	amount, ok2 := new(big.Rat).SetString(u.Amount)
	limit, ok3 := new(big.Rat).SetString(u.Limit)
	return ok1 && ok2 && ok3 && used.Add(used, amount).Cmp(limit) > 0
}
