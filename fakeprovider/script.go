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

// arrival is a request as the script sees it.
type arrival struct {
	r               *http.Request
	body            []byte
	kind            RequestKind
	naturalKey, key string
}

// isWrite and isLookup also speak of what is neither: a client that calls an
// endpoint that there is not still wants to write, or to look.
func (a arrival) isWrite() bool { return a.kind == KindWrite || a.kind == KindOther && !a.isLookup() }
func (a arrival) isLookup() bool {
	return a.kind == KindLookup || a.kind == KindOther && a.r.Method == http.MethodGet
}

// rule is a queue of faults for the requests that match.
type rule struct {
	match    func(arrival) bool
	specific bool // added with a caller's predicate
	faults   []Fault
}

func (s *script) add(match func(arrival) bool, specific bool, faults []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &rule{match: match, specific: specific, faults: faults})
}

// take removes and returns the fault for a request; the zero Fault if none
// waits for it.
func (s *script) take(a arrival) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, specific := range []bool{true, false} {
		for i, rule := range s.rules {
			if rule.specific != specific || !rule.match(a) {
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
