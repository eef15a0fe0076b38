package telemetry

import "sync"

// other stands for all values of a label beyond those that keep their name.
const other = "other"

// first lets the first values of a label keep their name. It is safe for concurrent
// use.
type first struct {
	most int

	mu   sync.Mutex
	kept map[string]struct{}
}

func newFirst(most, instead int) *first {
	if most <= 0 {
		most = instead
	}
	return &first{most: most, kept: map[string]struct{}{}}
}

// of returns the value under which v counts.
func (f *first) of(v string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.kept[v]; ok {
		return v
	}
	if len(f.kept) >= f.most {
		return other
	}
	f.kept[v] = struct{}{}
	return v
}
