package forecast

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/onceward/onceward/ledger"
)

// slidingSteps are the steps in which a sliding window counts (ledger.Window).
const slidingSteps = 60

// counter is what is used of a budget, in parts that end at different times. A
// part without an end counts for ever.
type counter struct {
	parts []part
}

// part is what was charged in one window or step, or by one open operation.
type part struct {
	amount big.Rat
	ends   time.Time
}

// used is what a counter holds at a time.
func (s *Simulation) used(c ledger.Charge, at time.Time) (*big.Rat, error) {
	if _, err := s.zone(c.Window.Zone); err != nil {
		return nil, err
	}
	switch c.Window.Unit {
	case "", "minute", "hour", "day", "week", "month":
	default:
		return nil, fmt.Errorf("budget %s: there is no window of a %q", c.Budget, c.Window.Unit)
	}
	used := new(big.Rat)
	known := s.counters[c.Counter]
	if known == nil {
		return used, nil
	}
	known.parts = slices.DeleteFunc(known.parts, func(p part) bool { return !p.ends.IsZero() && !at.Before(p.ends) })
	for i := range known.parts {
		used.Add(used, &known.parts[i].amount)
	}
	return used, nil
}

// charge adds to a counter: until its operation ends, or as its window says.
func (s *Simulation) charge(c ledger.Charge, at, operationEnds time.Time, amount *big.Rat) {
	ends := s.windowEnds(c.Window, at)
	if c.Kind == ledger.ChargeOpen && (ends.IsZero() || operationEnds.Before(ends)) {
		ends = operationEnds
	}
	known := s.counters[c.Counter]
	if known == nil {
		known = &counter{}
		s.counters[c.Counter] = known
	}
	// What ends together is one part, so that a counter has few.
	for i := range known.parts {
		if known.parts[i].ends.Equal(ends) {
			known.parts[i].amount.Add(&known.parts[i].amount, amount)
			return
		}
	}
	p := part{ends: ends}
	p.amount.Set(amount)
	known.parts = append(known.parts, p)
}

// windowEnds is when what is charged at a time is free again; zero is never.
func (s *Simulation) windowEnds(w ledger.Window, at time.Time) time.Time {
	if w.Sliding > 0 {
		step := max(w.Sliding/slidingSteps, 1)
		// Its step counts until the last instant of it is out of the window.
		begins := time.Unix(0, at.UnixNano()/int64(step)*int64(step))
		return begins.Add(step + w.Sliding)
	}
	zone, err := s.zone(w.Zone)
	if err != nil { // used has said so
		return time.Time{}
	}
	local := at.In(zone)
	year, month, day := local.Date()
	switch w.Unit {
	case "minute":
		return at.Add(time.Minute - sinceMinute(local))
	case "hour":
		return at.Add(time.Hour - time.Duration(local.Minute())*time.Minute - sinceMinute(local))
	case "day":
		return time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	case "week":
		sinceMonday := (int(local.Weekday()) + 6) % 7
		return time.Date(year, month, day-sinceMonday+7, 0, 0, 0, 0, zone)
	case "month":
		return time.Date(year, month+1, 1, 0, 0, 0, 0, zone)
	default:
		return time.Time{}
	}
}

func sinceMinute(t time.Time) time.Duration {
	return time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// zone is a time zone by its name; empty is UTC.
func (s *Simulation) zone(name string) (*time.Location, error) {
	if zone := s.zones[name]; zone != nil {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", name, err)
	}
	s.zones[name] = zone
	return zone, nil
}
