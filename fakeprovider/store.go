package fakeprovider

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// store is what the target holds: effects and the objects that they made. It
// is safe for concurrent use.
type store struct {
	mu      sync.Mutex
	effects []Effect
	objects []*object
	unique  map[uniqueValue]*object
}

type uniqueValue struct{ resource, value string }

// object is what a write made. It never changes after it was applied.
type object struct {
	made      Object
	effect    Effect
	lag       time.Duration // of a fault: hides it from look-ups other than by id
	settlesAt time.Time     // pending before
	twice     bool          // look-ups find it a second time
}

// apply keeps an object and counts its effect, in one step. name gives it its
// id. Where another object holds the unique value already, apply returns that
// one and false.
func (s *store) apply(o *object, name func() (id string, number int)) (*object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unique := uniqueValue{o.effect.Resource, o.made.Draft.Unique}
	if unique.value != "" {
		if existing, taken := s.unique[unique]; taken {
			return existing, false
		}
		s.unique[unique] = o
	}
	o.made.ID, o.made.Number = name()
	o.effect.ID = o.made.ID
	s.effects = append(s.effects, o.effect)
	s.objects = append(s.objects, o)
	return o, true
}

func (s *store) all() []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Effect{}, s.effects...) // never nil, so that JSON has a list
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.effects)
}

// visible returns what a look-up can see at a time, newest first.
func (s *store) visible(resource string, l *Lookup, now time.Time) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Object
	for _, o := range slices.Backward(s.objects) {
		if o.effect.Resource != resource || !l.ByID && o.hidden(l.Lag, now) {
			continue
		}
		seen := o.at(now)
		out = append(out, seen)
		if o.twice && !l.ByID {
			seen.ID += "_again"
			out = append(out, seen)
		}
	}
	return out
}

func (o *object) hidden(lag time.Duration, now time.Time) bool {
	if o.lag > 0 {
		lag = o.lag
	}
	return o.made.At.Add(lag).After(now)
}

// at is the object as it is at a time.
func (o *object) at(now time.Time) Object {
	seen := o.made
	seen.Pending = o.settlesAt.After(now)
	return seen
}

// asJSON is a body as an effect shows it: JSON as it is, everything else as
// one text.
func asJSON(body []byte) json.RawMessage {
	if json.Valid(body) {
		return body
	}
	return encode(string(body))
}
