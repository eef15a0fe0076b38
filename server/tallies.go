package server

import (
	"context"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Bounds of what is counted in memory.
const (
	// tallyInterval is how long a count waits to be written.
	tallyInterval = 5 * time.Second
	// tallyTimeout bounds one try to write. It is far below the time for which
	// the ledger knows a batch again.
	tallyTimeout = 10 * time.Second
	// maxTallies is how many kinds of requests are told apart until the next
	// write: some 2 MB. Beyond it only tenant, hour and what was done are.
	maxTallies = 8192
	// amountPlaces are the decimal places of amounts, as in ledger.Charge.
	amountPlaces = 12
)

// manyActionTypes stands for the action types of what is not told apart any
// more. No action type can have this name.
const manyActionTypes = "(others)"

// What was done with a request.
const (
	tallyExecuted  = "executed"
	tallyDuplicate = "duplicate"
	tallyRefused   = "refused"
)

// tallies counts what is done with requests, and writes the counts every few
// seconds. Counting never waits for the ledger and is safe for concurrent use.
//
// Counts that cannot be written are kept, and tried again under the same batch,
// so that a write whose answer was lost counts once. A process that is killed
// loses those of its last seconds.
type tallies struct {
	add func(ctx context.Context, batch string, tallies []ledger.Tally) error
	log *slog.Logger
	// metrics is told of duplicates: they are explained where they are counted.
	metrics Metrics

	mu     sync.Mutex
	counts map[tallyKind]*tallySum
	blurry bool // more kinds came than are told apart

	flushing sync.Mutex // one write at a time
	batch    string     // what is written, until the ledger has it
	written  []ledger.Tally
}

// tallyKind is a kind of request. The hour is that of this process's clock.
type tallyKind struct {
	tenant     string
	hour       int64 // seconds since 1970
	actionType string
	what       string
	cause      string
	stated     bool
	currency   string
}

// tallySum is how many there were, and what they would have spent.
type tallySum struct {
	count  int64
	amount *big.Rat // nil: nothing
}

func newTallies(add func(context.Context, string, []ledger.Tally) error, log *slog.Logger) *tallies {
	return &tallies{add: add, log: log, metrics: unmeasured{}, counts: map[tallyKind]*tallySum{}}
}

// executed counts a request that made an operation.
func (t *tallies) executed(op *ledger.Operation) {
	t.count(tallyKind{tenant: op.Tenant, actionType: op.ActionType, what: tallyExecuted}, "")
}

// duplicate counts a request whose operation existed, with its cause as
// explained. What it would have spent counts unless the operation is known to
// have had no effect: then a second one would not have had any either.
func (t *tallies) duplicate(op *ledger.Operation, cause oncewardv1.RetryCause, stated bool) {
	kind := tallyKind{tenant: op.Tenant, actionType: op.ActionType, what: tallyDuplicate, cause: nameOfCause(cause), stated: stated}
	t.metrics.Duplicate(op.Tenant, op.ActionType, kind.cause)
	amount := ""
	if op.State != ledger.Failed && op.Amount != "" {
		kind.currency, amount = op.Currency, op.Amount
	}
	t.count(kind, amount)
}

// refused counts a request that policy, a budget, an intent or a kill switch
// refused. The action type is one of the registry's, or empty where the request
// named none of those; the reason is the error's ("POLICY_DENIED").
func (t *tallies) refused(tenant, actionType, reason string) {
	t.count(tallyKind{tenant: tenant, actionType: actionType, what: tallyRefused, cause: reason}, "")
}

// count adds one to a kind, of this hour.
func (t *tallies) count(kind tallyKind, amount string) {
	kind.hour = time.Now().Truncate(time.Hour).Unix()
	var spent *big.Rat
	if amount != "" {
		var ok bool
		if spent, ok = new(big.Rat).SetString(amount); !ok {
			t.log.Error("an amount of the ledger is no number", "amount", amount)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.counts[kind]
	if sum == nil {
		if len(t.counts) >= maxTallies {
			t.blurry = true
			// There are as many of these as tenants, and a few.
			kind, spent = tallyKind{tenant: kind.tenant, hour: kind.hour, actionType: manyActionTypes, what: kind.what}, nil
			sum = t.counts[kind]
		}
		if sum == nil {
			sum = &tallySum{}
			t.counts[kind] = sum
		}
	}
	sum.count++
	if spent != nil {
		if sum.amount == nil {
			sum.amount = new(big.Rat)
		}
		sum.amount.Add(sum.amount, spent)
	}
}

// run writes what was counted until ctx ends, and then once more.
func (t *tallies) run(ctx context.Context) {
	tick := time.NewTicker(tallyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.flush(context.WithoutCancel(ctx))
			return
		case <-tick.C:
			t.flush(ctx)
		}
	}
}

// flush writes what was counted: first what could not be written before.
func (t *tallies) flush(ctx context.Context) {
	t.flushing.Lock()
	defer t.flushing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tallyTimeout)
	defer cancel()
	for range 2 {
		if t.batch == "" {
			if t.written = t.take(); len(t.written) == 0 {
				return
			}
			t.batch = dispatch.NewID()
		}
		if err := t.add(ctx, t.batch, t.written); err != nil {
			t.log.Warn("statistics are not written; tried again later", "kinds", len(t.written), "error", err)
			return
		}
		t.batch, t.written = "", nil
	}
}

// take empties the counts.
func (t *tallies) take() []ledger.Tally {
	t.mu.Lock()
	counts, blurry := t.counts, t.blurry
	t.counts, t.blurry = map[tallyKind]*tallySum{}, false
	t.mu.Unlock()
	if blurry {
		t.log.Warn("more kinds of requests came than are told apart: some are counted by tenant alone", "kinds", maxTallies)
	}
	list := make([]ledger.Tally, 0, len(counts))
	for kind, sum := range counts {
		list = append(list, ledger.Tally{
			Tenant: kind.tenant, Hour: time.Unix(kind.hour, 0).UTC(), ActionType: kind.actionType, What: kind.what,
			Cause: kind.cause, Stated: kind.stated, Currency: kind.currency, Count: sum.count, Amount: decimal(sum.amount),
		})
	}
	return list
}

// decimal writes an amount without zeros that say nothing; nil is nothing.
func decimal(amount *big.Rat) string {
	if amount == nil || amount.Sign() == 0 {
		return "0"
	}
	text := amount.FloatString(amountPlaces)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// nameOfCause is a cause as tallies have it; empty where it is not known.
func nameOfCause(cause oncewardv1.RetryCause) string {
	switch cause {
	case oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY:
		return "model_retry"
	case oncewardv1.RetryCause_RETRY_CAUSE_NETWORK_TIMEOUT:
		return "network_timeout"
	case oncewardv1.RetryCause_RETRY_CAUSE_TOOL_TIMEOUT:
		return "tool_timeout"
	case oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY:
		return "explicit_retry"
	case oncewardv1.RetryCause_RETRY_CAUSE_CRASH_REPLAY:
		return "crash_replay"
	case oncewardv1.RetryCause_RETRY_CAUSE_QUEUE_REDELIVERY:
		return "queue_redelivery"
	case oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED:
	}
	return ""
}

const causePrefix = "RETRY_CAUSE_"

// causeNamed is the cause that a tally has.
func causeNamed(name string) oncewardv1.RetryCause {
	return oncewardv1.RetryCause(oncewardv1.RetryCause_value[causePrefix+strings.ToUpper(name)])
}
