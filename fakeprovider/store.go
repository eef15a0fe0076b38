package fakeprovider

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// store is what the target holds: effects and the objects that they made. It
// is safe for concurrent use.
type store struct {
	mu      sync.Mutex
	effects []Effect
	objects []*object
	byID    map[string]*object
	unique  map[string]*object
}

// object is a refund, a mail or a contact. It never changes after it was made.
type object struct {
	effect    Effect
	fields    map[string]any // without id and status
	status    string         // once settled
	visibleAt time.Time      // for look-ups other than by id
	settlesAt time.Time      // pending before
	twice     bool           // look-ups find it a second time
}

// apply creates an object and counts its effect, in one step. Where another
// object holds the unique value already, it returns that one and false.
func (s *store) apply(o *object, prefix, unique string) (*object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unique != "" {
		if existing, taken := s.unique[unique]; taken {
			return existing, false
		}
	}
	o.effect.ID = prefix + strings.ToLower(rand.Text()[:20])
	s.effects = append(s.effects, o.effect)
	s.objects = append(s.objects, o)
	s.byID[o.effect.ID] = o
	if unique != "" {
		s.unique[unique] = o
	}
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

// get reads by the provider's own id, which never lags.
func (s *store) get(resource, id string) (*object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.byID[id]
	return o, found && o.effect.Resource == resource
}

// search returns what is visible at a time and passes all filters, newest first.
func (s *store) search(resource string, filters map[string]string, now time.Time) []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []entry
	for _, o := range slices.Backward(s.objects) {
		if o.effect.Resource != resource || o.visibleAt.After(now) || !o.passes(filters) {
			continue
		}
		out = append(out, entry{id: o.effect.ID, object: o})
		if o.twice {
			out = append(out, entry{id: o.effect.ID + "_again", object: o})
		}
	}
	return out
}

func (o *object) passes(filters map[string]string) bool {
	for name, want := range filters {
		got := fmt.Sprint(o.fields[name])
		if name == "operation_id" {
			got = o.effect.OperationID
		}
		if got != want {
			return false
		}
	}
	return true
}

// entry is an object as a look-up shows it: under its own id or a false one.
type entry struct {
	id     string
	object *object
}

// view is what a client sees of an object.
func (e entry) view(now time.Time) map[string]any {
	v := make(map[string]any, len(e.object.fields)+4)
	for name, value := range e.object.fields {
		v[name] = value
	}
	v["id"] = e.id
	v["object"] = e.object.effect.Resource
	v["created"] = e.object.effect.At.Unix()
	v["status"] = e.object.status
	if e.object.pending(now) {
		v["status"] = "pending"
	}
	return v
}

func (o *object) pending(now time.Time) bool { return o.settlesAt.After(now) }

func (o *object) view(now time.Time) map[string]any {
	return entry{id: o.effect.ID, object: o}.view(now)
}
