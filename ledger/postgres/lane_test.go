package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/ledger"
)

// recorded is a lane of numbers that notes who flew together, and waits before
// each flight for leave to go.
type recorded struct {
	*lane[int]
	leave   chan struct{}
	mu      sync.Mutex
	batches [][]int
	seats   map[*seat[int]]bool // that have flown
}

func record(batch, flights, crowd int, after func([]*seat[int]) []*seat[int]) *recorded {
	r := &recorded{leave: make(chan struct{}), seats: map[*seat[int]]bool{}}
	r.lane = &lane[int]{batch: batch, flights: flights, crowd: crowd, limit: 1000, weigh: func(n int) int { return n }, flown: func(int, time.Duration) {},
		fly: func(seats []*seat[int]) []*seat[int] {
			<-r.leave
			r.mu.Lock()
			var together []int
			for _, s := range seats {
				together = append(together, s.job)
				r.seats[s] = true
			}
			r.batches = append(r.batches, together)
			r.mu.Unlock()
			return after(seats)
		}}
	return r
}

func none([]*seat[int]) []*seat[int] { return nil }

// come lets jobs come one after the other, and returns when all of them wait or
// fly.
func (r *recorded) come(t *testing.T, done *sync.WaitGroup, jobs ...int) {
	t.Helper()
	for _, job := range jobs {
		done.Go(func() {
			if err := r.do(t.Context(), job); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
}

func TestLaneSharesFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(3, 2, 100, none)
		var done sync.WaitGroup
		r.come(t, &done, 1, 2, 3, 4, 5)
		close(r.leave)
		done.Wait()
		if want := [][]int{{1}, {2, 3, 4}, {5}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("flights %v, want %v", r.batches, want)
		}
		synctest.Wait()
		if r.flying != 0 || len(r.waiting) != 0 {
			t.Errorf("%d flights, %d waiting when all is done", r.flying, len(r.waiting))
		}
	})
}

func TestLaneFliesAsManyAsAreCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(10, 2, 2, none)
		var done sync.WaitGroup
		r.come(t, &done, 1, 2, 3, 4, 5, 6, 7)
		if r.flying != 2 {
			t.Errorf("%d flights with seven jobs, want the two there may be", r.flying)
		}
		close(r.leave)
		done.Wait()
	})
}

func TestLaneIsBoundedByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(10, 1, 100, none)
		var done sync.WaitGroup
		r.come(t, &done, 1, maxBatchBytes/2, maxBatchBytes/2, 1, 2*maxBatchBytes, 1)
		close(r.leave)
		done.Wait()
		want := [][]int{{1}, {maxBatchBytes / 2, maxBatchBytes / 2}, {1}, {2 * maxBatchBytes}, {1}}
		if !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("flights %v, want %v", r.batches, want)
		}
	})
}

func TestLaneLetsThoseGoWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(10, 1, 100, none)
		var done sync.WaitGroup
		r.come(t, &done, 1)
		ctx, leave := context.WithCancel(t.Context())
		done.Go(func() {
			if err := r.do(ctx, 2); !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Errorf("left: %v", err)
			}
		})
		r.come(t, &done, 3)
		leave()
		synctest.Wait()
		close(r.leave)
		done.Wait()
		if want := [][]int{{1}, {3}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("flights %v, want %v", r.batches, want)
		}
	})
}

// Seats are used again. Nobody is told that his job is done by what became of the job
// of somebody before him.
func TestLaneUsesSeatsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(10, 1, 100, none)
		var done sync.WaitGroup
		r.come(t, &done, 1)
		for range 3 {
			ctx, leave := context.WithCancel(t.Context())
			done.Go(func() { _ = r.do(ctx, 2) })
			synctest.Wait()
			leave()
			synctest.Wait()
			early := make(chan struct{})
			done.Go(func() { _ = r.do(t.Context(), 3); close(early) })
			synctest.Wait()
			select {
			case <-early:
				t.Error("a job was done before its flight")
			default:
			}
			r.leave <- struct{}{} // 1, or the 3 before
			synctest.Wait()
		}
		close(r.leave)
		done.Wait()
		if want := [][]int{{1}, {3}, {3}, {3}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("flights %v, want %v", r.batches, want)
		}
		if len(r.seats) == len(r.batches) {
			t.Error("no seat was used again: this tests nothing")
		}
	})
}

// What a flight has not done goes first with the next one.
func TestLaneFliesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		r := record(10, 1, 100, func(seats []*seat[int]) (again []*seat[int]) {
			if len(seats) > 1 {
				once.Do(func() { again = []*seat[int]{seats[1]} })
			}
			return again
		})
		var done sync.WaitGroup
		r.come(t, &done, 1, 2, 3)
		r.leave <- struct{}{}
		synctest.Wait()
		r.come(t, &done, 4)
		close(r.leave)
		done.Wait()
		if want := [][]int{{1}, {2, 3}, {3, 4}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("flights %v, want %v", r.batches, want)
		}
	})
}

// Nobody waits for ever where whoever is told of flights panics, either.
func TestLaneSurvivesItsObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(10, 1, 100, none)
		close(r.leave)
		r.flown = func(int, time.Duration) { panic("poison") }
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = r.do(t.Context(), 1)
		}()
		r.flown = func(int, time.Duration) {}
		var done sync.WaitGroup
		r.come(t, &done, 2)
		done.Wait()
		synctest.Wait()
		if r.flying != 0 || len(r.waiting) != 0 {
			t.Errorf("%d flights, %d waiting when all is done", r.flying, len(r.waiting))
		}
	})
}

// A panic is its caller's; nobody is left waiting, and the lane works on.
func TestLaneSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(10, 1, 100, func(seats []*seat[int]) []*seat[int] {
			if seats[0].job == 1 {
				panic("poison")
			}
			return nil
		})
		var done sync.WaitGroup
		done.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = r.do(t.Context(), 1)
		})
		synctest.Wait()
		r.come(t, &done, 2, 3)
		close(r.leave)
		done.Wait()
		synctest.Wait()
		if want := [][]int{{1}, {2, 3}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("flights %v, want %v", r.batches, want)
		}
		if r.flying != 0 {
			t.Errorf("%d flights when all is done", r.flying)
		}
	})
}
