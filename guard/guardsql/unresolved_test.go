package guardsql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/guard/guardsql"
)

// What died half way is shown and can be ended by a person, one way or the other;
// what is finished or may still be under way cannot.
func TestAPersonFindsOut(t *testing.T) {
	t.Parallel()
	db := database(t)
	s := guardsql.New(db)
	begin := func(tenant, id string, hold time.Duration) guard.Operation {
		t.Helper()
		c := claims()
		c.Tenant, c.OperationID = tenant, id
		if e, err := s.Begin(t.Context(), c, hold); err != nil || e.State != guard.Begun {
			t.Fatalf("%s: %+v, %v", id, e, err)
		}
		return c.Operation()
	}
	died := begin("acme", "died", 0) // its hold is over at once
	doubtful, underWay, finished, others := begin("acme", "doubtful", time.Hour), begin("acme", "under way", time.Hour), begin("acme", "finished", time.Hour), begin("globex", "died", 0)
	if err := errors.Join(s.Doubt(t.Context(), doubtful), s.Finish(t.Context(), finished, guard.Response{Status: 201})); err != nil {
		t.Fatal(err)
	}
	waiting := func() (ops []guard.Operation) {
		t.Helper()
		list, err := s.Unresolved(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list {
			if u.ActionType != claims().ActionType || u.ArgumentsHash != claims().ArgumentsHash || time.Since(u.BegunAt) > time.Minute {
				t.Errorf("shown as %+v", u)
			}
			ops = append(ops, u.Operation)
		}
		return ops
	}
	if got := waiting(); len(got) != 3 || got[0] != died || got[1] != doubtful || got[2] != others {
		t.Errorf("unresolved are %v", got)
	}
	if list, err := s.Unresolved(t.Context(), 1); err != nil || len(list) != 1 {
		t.Errorf("one of them: %v, %v", list, err)
	}
	for _, op := range []guard.Operation{underWay, finished, {Tenant: "acme", ID: "nobody's"}, {Tenant: "initech", ID: "died"}} {
		for _, performed := range []bool{true, false} {
			if err := s.Resolve(t.Context(), op, performed); !errors.Is(err, guardsql.ErrNotUnresolved) {
				t.Errorf("%v, performed %v: %v", op, performed, err)
			}
		}
	}
	if err := errors.Join(s.Resolve(t.Context(), died, false), s.Resolve(t.Context(), doubtful, true)); err != nil {
		t.Fatal(err)
	}
	if got := waiting(); len(got) != 1 || got[0] != others {
		t.Errorf("afterwards unresolved are %v", got)
	}
	for id, want := range map[string]guard.State{"died": guard.Begun, "doubtful": guard.Finished, "under way": guard.Running, "finished": guard.Finished} {
		c := claims()
		c.OperationID = id
		if e, err := s.Begin(t.Context(), c, time.Hour); err != nil || e.State != want || e.Response.NotKept != (id == "doubtful") {
			t.Errorf("%s: the next request finds %+v, %v", id, e, err)
		}
	}
}

// A request that was given up as dead, and was only slow, gives nothing back of
// what the next attempt has begun.
func TestALateRequestGivesNothingBack(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]guard.Store{"memory": guard.NewMemory(guard.MemoryOptions{}), "Postgres": guardsql.New(database(t))} {
		slow, next := claims(), claims()
		next.Attempt = 2
		begin := func(c guard.Claims, want guard.State) {
			t.Helper()
			if e, err := s.Begin(t.Context(), c, time.Hour); err != nil || e.State != want {
				t.Errorf("%s: %+v, %v; want %s", name, e, err, want)
			}
		}
		begin(slow, guard.Begun)
		if err := s.Release(t.Context(), slow); err != nil { // by whoever takes it for dead
			t.Error(err)
		}
		begin(next, guard.Begun)
		if err := s.Release(t.Context(), slow); err != nil { // by the slow one itself
			t.Error(err)
		}
		begin(next, guard.Running)
		if err := s.Release(t.Context(), next); err != nil {
			t.Error(err)
		}
		begin(next, guard.Begun)
	}
}
