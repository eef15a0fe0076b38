package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A call that is over holds no place of those that are late, whether its message
// came or not: who opens calls and drops them must not use the places up.
func TestArrivalsOfCallsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &arrivals{arrival: 10 * time.Second, late: 1}
		dropped, drop := context.WithCancel(t.Context())
		if _, err := all.expect(dropped, nil); err != nil {
			t.Fatal(err)
		}
		late, leave := context.WithCancel(t.Context())
		if _, err := all.expect(late, nil); err != nil {
			t.Fatal(err)
		}
		drop()
		time.Sleep(2 * time.Second) // of the bubble
		if n := all.lateNow(); n != 1 {
			t.Errorf("%d calls are late, want the one that goes on", n)
		}
		leave()
		synctest.Wait()
		slow, err := all.expect(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if slow.Err() != nil {
			t.Error("a slow call was ended for one that was over")
		}
		arrived(slow)
		if n := all.lateNow(); n != 0 {
			t.Errorf("%d calls are late when none is", n)
		}
	})
}

// lateNow is how many calls are late.
func (a *arrivals) lateNow() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// Calls are waited for one by one, whenever they came and in whatever order their
// messages come: each late one has a place while there are any, and is ended when
// its own time is over.
func TestArrivalsOfManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &arrivals{arrival: 10 * time.Second, late: 2}
		expect := func() context.Context {
			ctx, err := all.expect(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return ctx
		}
		check := func(when string, late int, ended, going []context.Context) {
			t.Helper()
			synctest.Wait()
			if n := all.lateNow(); n != late {
				t.Errorf("%s: %d calls are late, want %d", when, n, late)
			}
			for i, ctx := range ended {
				if ctx.Err() == nil {
					t.Errorf("%s: call %d was not ended", when, i)
				}
			}
			for i, ctx := range going {
				if ctx.Err() != nil {
					t.Errorf("%s: call %d was ended: %v", when, i, ctx.Err())
				}
			}
		}
		a, b, c, d := expect(), expect(), expect(), expect()
		arrived(b) // from the middle, the end and the front of those that wait
		arrived(d)
		arrived(a)
		time.Sleep(500 * time.Millisecond)
		e, f := expect(), expect()
		check("nobody is late", 0, nil, []context.Context{a, b, c, d, e, f})
		time.Sleep(600 * time.Millisecond)
		check("the first is late", 1, nil, []context.Context{a, b, c, d, e, f})
		time.Sleep(500 * time.Millisecond)
		check("too many are", 2, []context.Context{f}, []context.Context{a, b, c, d, e})
		arrived(e)
		g := expect()
		time.Sleep(1100 * time.Millisecond)
		check("a place was free", 2, nil, []context.Context{a, b, c, d, e, g})
		time.Sleep(7400 * time.Millisecond)
		check("its time was over", 1, []context.Context{c, f}, []context.Context{a, b, d, e, g})
		arrived(g)
		time.Sleep(time.Minute)
		check("it came late", 0, nil, []context.Context{a, b, d, e, g})
		h := expect() // after a time without any
		time.Sleep(11 * time.Second)
		check("none came", 0, []context.Context{h}, []context.Context{a, b, d, e, g})
	})
}

// A message that comes at the very moment when its time is over is there: its call
// is served, not ended.
func TestArrivalAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &arrivals{arrival: 10 * time.Second, late: 1}
		ctx, err := all.expect(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		arrived(ctx)
		one, ok := ctx.Value(arrivalKey{}).(*arrival)
		if !ok {
			t.Fatal("the call has no arrival")
		}
		one.expired() // the timer had run out before it was stopped
		if ctx.Err() != nil || all.lateNow() != 0 {
			t.Errorf("the call is ended (%v), and %d are late", ctx.Err(), all.lateNow())
		}
	})
}
