package proof

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		began := c.Now()
		soon, late := c.After(time.Second), c.After(time.Hour)
		fired := func(ch <-chan time.Time) bool {
			synctest.Wait()
			select {
			case <-ch:
				return true
			default:
				return false
			}
		}
		if fired(c.After(0)) != true || fired(soon) || fired(late) {
			t.Error("at the start only what is due may fire")
		}
		time.Sleep(time.Second)
		if !fired(soon) || fired(late) {
			t.Error("the clock does not run by itself")
		}
		c.Advance(-time.Hour)
		c.Advance(time.Hour - 2*time.Second)
		if fired(late) || c.Now().Sub(began) != time.Hour-time.Second {
			t.Errorf("a second before its time, at %s, it fired", c.Now().Sub(began))
		}
		c.Advance(2 * time.Second)
		if !fired(late) || fired(late) {
			t.Error("when its time was passed over it fires once")
		}
	})
}

func TestHastyClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := HastyClock()
		began := now()
		time.Sleep(time.Second)
		if passed := now().Sub(began); passed != waitFactor*time.Second {
			t.Errorf("%s passed in a second", passed)
		}
	})
}
