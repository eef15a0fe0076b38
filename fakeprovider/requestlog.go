package fakeprovider

import "sync"

// requestLog remembers the newest requests. It is safe for concurrent use.
type requestLog struct {
	limit int

	mu       sync.Mutex
	received int
	finished int
	kept     []*Request
	attempts map[string]int
}

// arrive numbers a request and starts its record.
func (l *requestLog) arrive(r Request) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received++
	r.Number = l.received
	if r.NaturalKey != "" {
		l.attempts[r.NaturalKey]++
		r.Attempt = l.attempts[r.NaturalKey]
	}
	if len(l.kept) >= l.limit {
		l.kept[0] = nil // the array lives on until the next append moves it
		l.kept = l.kept[1:]
	}
	l.kept = append(l.kept, &r)
	return &r
}

// update changes a record.
func (l *requestLog) update(r *Request, change func(*Request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(r)
}

// finish closes a record. It is called once for each.
func (l *requestLog) finish(r *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Finished = true
	l.finished++
}

func (l *requestLog) counts() (received, finished int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received, l.finished
}

func (l *requestLog) all() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Request, len(l.kept))
	for i, r := range l.kept {
		out[i] = *r
	}
	return out
}
