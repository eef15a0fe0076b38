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
		if n := all.now.Load(); n != 1 {
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
		if n := all.now.Load(); n != 0 {
			t.Errorf("%d calls are late when none is", n)
		}
	})
}
