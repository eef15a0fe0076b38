package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// names are exact names and prefixes that end in *. They are immutable.
type names struct {
	exact    map[string]bool
	prefixes []string
}

func namesOf(patterns []string) names {
	n := names{exact: map[string]bool{}}
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			n.prefixes = append(n.prefixes, prefix)
		} else {
			n.exact[p] = true
		}
	}
	return n
}

// has reports whether a name is among them. The empty name never is.
func (n names) has(name string) bool {
	if name == "" {
		return false
	}
	if n.exact[name] {
		return true
	}
	for _, prefix := range n.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// empty reports whether nothing was listed.
func (n names) empty() bool { return len(n.exact) == 0 && len(n.prefixes) == 0 }

var (
	typeOrPrefix = regexp.MustCompile(`^(\*|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*\.\*|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+)$`)
	nameOrPrefix = regexp.MustCompile(`^[^\x00-\x20\x7f*]*\*?$`)
)

// checkType says what is wrong with the name or prefix of action types.
func checkType(pattern string) error {
	if len(pattern) > 100 || !typeOrPrefix.MatchString(pattern) {
		return fmt.Errorf("%q: want an action type (stripe.refund.create), all that begin alike (stripe.*), or *", pattern)
	}
	return nil
}

// checkName says what is wrong with the name or prefix of actors or agents.
func checkName(pattern string) error {
	if pattern == "" || len(pattern) > 255 || !nameOrPrefix.MatchString(pattern) {
		return fmt.Errorf("%q: want a name (support-7), all that begin alike (support-*), or *; no white space, and * at the end alone", pattern)
	}
	return nil
}
