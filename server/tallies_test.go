package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// tallyBook remembers batches of tallies by id, as the ledger does.
type tallyBook struct {
	mu      sync.Mutex
	batches map[string][]ledger.Tally
	tries   int
	lose    error // the answer, after the batch was added
	refuse  error // before
}

func (b *tallyBook) add(_ context.Context, batch string, tallies []ledger.Tally) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	if b.refuse != nil {
		return b.refuse
	}
	if b.batches == nil {
		b.batches = map[string][]ledger.Tally{}
	}
	b.batches[batch] = tallies
	return b.lose
}

func (b *tallyBook) fails(before, after error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse, b.lose = before, after
}

// counted is everything that was added, as "tenant action what cause stated currency: count amount".
func (b *tallyBook) counted() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, batch := range b.batches {
		for _, t := range batch {
			lines = append(lines, fmt.Sprintf("%s %s %s %s %t %s: %d %s", t.Tenant, t.ActionType, t.What, t.Cause, t.Stated, t.Currency, t.Count, t.Amount))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func paid(amount, currency string) *ledger.Operation {
	return &ledger.Operation{Tenant: "acme", ActionType: "refund", State: ledger.Succeeded, Amount: amount, Currency: currency}
}

func TestTalliesCountEachKind(t *testing.T) {
	t.Parallel()
	book := &tallyBook{}
	tallies := newTallies(book.add, quiet())
	failed := paid("5", "EUR")
	failed.State, failed.Effect = ledger.Failed, ledger.EffectNotApplied
	unknown := paid("2", "EUR")
	unknown.State = ledger.Unknown
	const model, none = oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY, oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED
	tallies.executed(paid("1", "EUR"))
	tallies.executed(paid("1", "USD"))
	for range 3 {
		tallies.duplicate(paid("0.1", "EUR"), model, true)
	}
	tallies.duplicate(paid("99999999999999999999.000000000001", "EUR"), model, true)
	tallies.duplicate(paid("7", "USD"), model, true)
	tallies.duplicate(paid("7", "EUR"), model, false)
	tallies.duplicate(unknown, none, false)
	tallies.duplicate(failed, none, false) // it would not have had an effect either
	tallies.duplicate(paid("", ""), none, false)
	tallies.duplicate(paid("rubbish", "EUR"), none, false)
	tallies.refused("acme", "refund", "POLICY_DENIED")
	tallies.refused("globex", "", "POLICY_DENIED")
	tallies.flush(t.Context())
	want := strings.Join([]string{
		"acme refund duplicate  false : 2 0",
		"acme refund duplicate  false EUR: 2 2",
		"acme refund duplicate model_retry false EUR: 1 7",
		"acme refund duplicate model_retry true EUR: 4 99999999999999999999.300000000001",
		"acme refund duplicate model_retry true USD: 1 7",
		"acme refund executed  false : 2 0",
		"acme refund refused POLICY_DENIED false : 1 0",
		"globex  refused POLICY_DENIED false : 1 0",
	}, "\n")
	if got := book.counted(); got != want {
		t.Errorf("counted\n%s\nwant\n%s", got, want)
	}
	tallies.flush(t.Context())
	if book.tries != 1 {
		t.Errorf("%d writes, want none of nothing", book.tries)
	}
}

// They are written every few seconds, and what came last at the end.
func TestTalliesAreWrittenInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &tallyBook{}
		tallies := newTallies(book.add, quiet())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		running.Go(func() { tallies.run(ctx) })
		tallies.executed(paid("", ""))
		time.Sleep(tallyInterval)
		synctest.Wait()
		if got := book.counted(); got != "acme refund executed  false : 1 0" {
			t.Errorf("after %s: %q", tallyInterval, got)
		}
		tallies.refused("acme", "refund", "STOPPED")
		stop()
		running.Wait()
		if got := book.counted(); !strings.Contains(got, "refused STOPPED") {
			t.Errorf("at the end: %q", got)
		}
	})
}

// The hour is the one in which it happened, not the one in which it is written.
func TestTalliesHaveTheirHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &tallyBook{}
		tallies := newTallies(book.add, quiet())
		begun := time.Now().Truncate(time.Hour)
		time.Sleep(time.Until(begun.Add(time.Hour - 1)))
		tallies.executed(paid("", ""))
		time.Sleep(time.Nanosecond)
		tallies.executed(paid("", ""))
		tallies.executed(paid("", ""))
		tallies.flush(t.Context())
		got := map[time.Time]int64{}
		for _, batch := range book.batches {
			for _, tally := range batch {
				got[tally.Hour] += tally.Count
			}
		}
		if want := map[time.Time]int64{begun.UTC(): 1, begun.Add(time.Hour).UTC(): 2}; !maps.Equal(got, want) {
			t.Errorf("hours %v, want %v", got, want)
		}
	})
}

// A batch is the same until the ledger has answered, and what comes meanwhile
// waits for its own.
func TestFailedWriteOfTalliesIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*tallyBook, error){
		"not written":     func(b *tallyBook, err error) { b.fails(err, nil) },
		"the answer lost": func(b *tallyBook, err error) { b.fails(nil, err) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := &tallyBook{}
			tallies := newTallies(book.add, quiet())
			fail(book, errors.New("away"))
			tallies.executed(paid("", ""))
			tallies.flush(t.Context())
			tallies.executed(paid("", ""))
			tallies.flush(t.Context())
			if book.tries != 2 {
				t.Errorf("%d tries, want 2", book.tries)
			}
			fail(book, nil)
			tallies.flush(t.Context())
			if got, want := book.counted(), "acme refund executed  false : 1 0\nacme refund executed  false : 1 0"; got != want || len(book.batches) != 2 {
				t.Errorf("%d batches:\n%s\nwant two of one request", len(book.batches), got)
			}
		})
	}
}

// Whoever makes up names cannot fill the memory, and the sums stay right.
func TestTalliesAreBounded(t *testing.T) {
	t.Parallel()
	book := &tallyBook{}
	tallies := newTallies(book.add, quiet())
	const requests = 2 * maxTallies
	for i := range requests {
		tallies.refused("acme", fmt.Sprintf("type-%d", i), "POLICY_DENIED")
	}
	if kinds := len(tallies.counts); kinds > maxTallies+1 {
		t.Errorf("%d kinds in memory, want at most %d and one for the rest", kinds, maxTallies)
	}
	tallies.flush(t.Context())
	sum := int64(0)
	for _, batch := range book.batches {
		for _, tally := range batch {
			sum += tally.Count
		}
	}
	if sum != requests || !strings.Contains(book.counted(), fmt.Sprintf("acme %s refused  false : %d 0", manyActionTypes, requests-maxTallies)) {
		t.Errorf("%d of %d requests were counted", sum, requests)
	}
}

// Counting waits for no write, and loses nothing beside one.
func TestTalliesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		book := &tallyBook{}
		tallies := newTallies(func(ctx context.Context, batch string, list []ledger.Tally) error {
			<-hold
			return book.add(ctx, batch, list)
		}, quiet())
		tallies.executed(paid("", ""))
		var writing, counting sync.WaitGroup
		writing.Go(func() { tallies.flush(t.Context()) })
		synctest.Wait() // it writes now
		for range 20 {
			counting.Go(func() {
				for range 50 {
					tallies.duplicate(paid("0.01", "EUR"), oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY, false)
				}
			})
		}
		counting.Wait() // while the write is held
		close(hold)
		writing.Wait()
		tallies.flush(t.Context())
		if got, want := book.counted(), "acme refund duplicate model_retry false EUR: 1000 10\nacme refund executed  false : 1 0"; got != want {
			t.Errorf("counted\n%s\nwant\n%s", got, want)
		}
	})
}

// AddTallies lets servers under test count.
func (m *memoryLedger) AddTallies(context.Context, string, []ledger.Tally) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken
}
