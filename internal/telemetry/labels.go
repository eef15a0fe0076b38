package telemetry

import (
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// other stands for all values of a label beyond those that keep their name.
	other = "other"
	// none stands for a value that is not known: an action type that nobody
	// registered, the provider of an operation whose adapter is not here.
	none = "none"
	// maxLabelBytes is longer than any name that Onceward accepts. What is longer is
	// somebody's mistake, and not kept in memory for ever.
	maxLabelBytes = 255
)

// labels bound the values that come from outside: callers, files, providers. Every
// metric of the process shares them, so that a tenant has one name in all.
type labels struct {
	tenants, actionTypes, providers, budgets *names
}

// maxBudgets is how many budgets keep their name. Policies name them, and most
// tenants' policies name the same ones.
const maxBudgets = 200

func newLabels(o Options) *labels {
	return &labels{
		tenants: newNames(o.MaxTenants, 100), actionTypes: newNames(o.MaxActionTypes, 200),
		providers: newNames(o.MaxProviders, 100), budgets: newNames(maxBudgets, maxBudgets),
	}
}

// names are the values of one label: the first ones keep their name, and what
// comes later is "other". They are safe for concurrent use, and to look one up
// allocates nothing.
type names struct {
	most int

	mu   sync.RWMutex
	kept map[string]string // to itself: the copy that is kept
}

func newNames(most, instead int) *names {
	if most <= 0 {
		most = instead
	}
	return &names{most: most, kept: map[string]string{}}
}

// of returns the value under which v counts. v takes a place if there is one, so
// it must be known to be somebody's: a tenant that a credential has proved, an
// action type that is registered.
func (n *names) of(v string) string {
	if name, ok := n.find(v); ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.kept[v]; ok {
		return name
	}
	if len(n.kept) >= n.most {
		return other
	}
	v = strings.Clone(v) // it may be a part of a message
	n.kept[v] = v
	return v
}

// known returns the value under which v counts, and takes no place for it: for
// what strangers make up.
func (n *names) known(v string) string {
	name, ok := n.find(v)
	if !ok {
		return other
	}
	return name
}

// find reports whether it is decided already under which value v counts.
func (n *names) find(v string) (name string, ok bool) {
	switch {
	case v == "":
		return none, true
	case len(v) > maxLabelBytes || !utf8.ValidString(v):
		return other, true // Prometheus takes none that is not UTF-8
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if name, ok = n.kept[v]; !ok && len(n.kept) >= n.most {
		return other, true
	}
	return name, ok
}
