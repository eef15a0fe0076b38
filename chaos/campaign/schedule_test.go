package campaign

import (
	"reflect"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// One seed is one schedule, and another seed another one.
func TestSeed(t *testing.T) {
	t.Parallel()
	kinds := []string{"a", "b", "c", "d"}
	schedule := func(seed uint64) (all []any) {
		o := Options{Seed: seed, Clients: 3, Rate: 10}
		next := scheduleOf(seed, kinds, time.Second)
		callers := planOf(seed, 2, o)
		for n := range 50 {
			all = append(all, goalOf(seed, n, answers()), next(), callers.next())
		}
		return all
	}
	if !reflect.DeepEqual(schedule(1), schedule(1)) {
		t.Error("a seed gives two schedules")
	}
	if reflect.DeepEqual(schedule(1), schedule(2)) {
		t.Error("two seeds give one schedule")
	}
}

// What the provider is to do about a goal can be scripted, and stays inside of what the
// contracts promise.
func TestGoals(t *testing.T) {
	t.Parallel()
	kinds := map[fakeprovider.Kind]bool{}
	actions, tenants := map[string]int{}, map[string]int{}
	for n := range 3000 {
		g := goalOf(7, n, answers())
		actions[g.action]++
		tenants[g.tenant]++
		for _, f := range g.faults {
			kinds[f.Kind] = true
			if err := f.Validate(); err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			if f.Kind == fakeprovider.Redirect && f.Apply && (f.Status == 307 || f.Status == 0) {
				t.Errorf("a provider says that it did not process what it applied: %+v", f)
			}
			if f.Delay+f.LookupLag+edgeDelay > arrivalTime || f.SettleAfter > arrivalTime {
				t.Errorf("the provider breaks its contract: %+v", f)
			}
		}
		if g.arguments(own, 0) == g.arguments(other, 0) {
			t.Errorf("%s has no other arguments: %s", g.action, g.arguments(own, 0))
		}
	}
	if len(kinds) != len(answers()) || len(actions) != 4 || len(tenants) != 3 {
		t.Errorf("goals leave something out: %v %v %v", kinds, actions, tenants)
	}
}

// Planned steps are about new goals mostly, and old ones too.
func TestPlan(t *testing.T) {
	t.Parallel()
	o := Options{Seed: 3, Clients: 10, Rate: 30}
	p := planOf(o.Seed, 1, o)
	habits := map[habit]int{}
	newest, old := 0, 0
	for range 2000 {
		s := p.next()
		habits[s.habit]++
		latest := int(s.at.Seconds() * p.newGoal)
		switch {
		case s.goal > latest || s.goal < 0:
			t.Fatalf("goal %d of %d", s.goal, latest)
		case s.goal == latest:
			newest++
		case s.goal < latest-20:
			old++
		}
	}
	if len(habits) != 6 || newest < 500 || old < 20 {
		t.Errorf("habits %v, %d about the newest goal, %d about old ones", habits, newest, old)
	}
}

func TestChosen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		wanted []string
		want   bool
	}{
		{"pg_kill", nil, true},
		{"pg_kill", []string{"all"}, true},
		{"pg_kill", []string{"none"}, false},
		{"pg_kill", []string{"provider_", "pg_"}, true},
		{"pg_kill", []string{"provider_"}, false},
	} {
		if got := chosen(test.name, test.wanted); got != test.want {
			t.Errorf("%s of %v: %t", test.name, test.wanted, got)
		}
	}
}
