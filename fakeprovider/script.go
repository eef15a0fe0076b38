package fakeprovider

import (
	"net/http"
	"sync"
)

// Predicate chooses requests for a fault. It must not keep or change what it
// is given and must not call the provider back.
type Predicate func(r *http.Request, body []byte) bool

// script holds the faults that wait for a request. Rules with a predicate come
// first, in the order in which they were added. It is safe for concurrent use.
type script struct {
	mu    sync.Mutex
	rules []*rule
}

// rule is a queue of faults for the requests that match.
type rule struct {
	match    Predicate
	specific bool // added with a caller's predicate
	faults   []Fault
}

func isWrite(r *http.Request, _ []byte) bool  { return r.Method == http.MethodPost }
func isLookup(r *http.Request, _ []byte) bool { return r.Method == http.MethodGet }

func (s *script) add(match Predicate, specific bool, faults []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &rule{match: match, specific: specific, faults: faults})
}

// take removes and returns the fault for a request; the zero Fault if none
// waits for it.
func (s *script) take(r *http.Request, body []byte) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, specific := range []bool{true, false} {
		for i, rule := range s.rules {
			if rule.specific != specific || !rule.match(r, body) {
				continue
			}
			f := rule.pop()
			if len(rule.faults) == 0 {
				s.rules = append(s.rules[:i], s.rules[i+1:]...)
			}
			return f
		}
	}
	return Fault{}
}

func (r *rule) pop() Fault {
	head := &r.faults[0]
	f := *head
	switch {
	case head.Times > 1:
		head.Times--
	case head.Times >= 0:
		r.faults = r.faults[1:]
	}
	return f
}

func (s *script) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// pending counts the faults that no request has taken yet; one that repeats
// for ever counts as one.
func (s *script) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, rule := range s.rules {
		for _, f := range rule.faults {
			n += max(f.Times, 1)
		}
	}
	return n
}
