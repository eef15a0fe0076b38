package declared

import (
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/httpaction"
)

// oneMatch says what the one object is that a complete look-up found.
func (s *search) oneMatch(m match) (f actions.Finding, decides bool) {
	if s.heuristic {
		return inconclusive("%s looks like it; a person must compare", m.name()), false
	}
	if s.ours != nil {
		ours, err := s.ours.Bool(m.vars)
		if err != nil {
			return inconclusive("%s: whether it is ours cannot be told: %v", m.name(), err), false
		}
		if !ours {
			return actions.Finding{Kind: actions.Foreign, References: referencesOf([]match{m}), Detail: m.name() + " has the name and is not of this operation"}, true
		}
	}
	if s.needsReference && m.reference != s.query.ProviderReference {
		return inconclusive("the provider answered with %s, and %s was asked for", m.name(), s.query.ProviderReference), false
	}
	if pending, f := s.isPending(m); pending {
		return f, true
	}
	if m.untold != nil {
		return inconclusive("%s: whether it ended without an effect cannot be told: %v", m.name(), m.untold), false
	}
	if m.failed {
		return s.ended(m), true
	}
	receipt, err := s.receipt.read(m.vars)
	if err != nil {
		return inconclusive("%s: the receipt cannot be read: %v", m.name(), err), false
	}
	return actions.Finding{Kind: actions.Found, Receipt: receipt, Detail: "found " + receipt.Reference}, true
}

// isPending reports whether the provider is still at work on an object, or may
// be: what cannot be told is not over.
func (s *search) isPending(m match) (bool, actions.Finding) {
	if s.pending == nil {
		return false, actions.Finding{}
	}
	pending, err := s.pending.Bool(m.vars)
	if err == nil && !pending {
		return false, actions.Finding{}
	}
	f := inconclusive("%s is there, and the provider is still at work on it", m.name())
	if err != nil {
		f = inconclusive("%s is there, and whether the provider is at work on it cannot be told: %v", m.name(), err)
	}
	f.After = s.every
	return true, f
}

// ended is the finding of an object that ended without an effect.
func (s *search) ended(m match) actions.Finding {
	code, message := s.contract.errors.read(m.vars)
	if message == "" {
		message = "The provider took it up and ended it without an effect."
	}
	var references []string
	if m.reference != "" {
		references = []string{m.reference}
	}
	return actions.Finding{
		Kind: actions.Ended, References: references, Detail: m.name() + " ended without an effect",
		Failure: actions.Failure{
			Code: orText(httpaction.SafeCode(code), "ended"), Message: httpaction.SafeText(message),
			Evidence: httpaction.SafeText("look-up " + s.name + ": " + m.name() + " ended without an effect"),
		},
	}
}

// severalMatches says what more than one object means.
func (s *search) severalMatches(matches []match) (f actions.Finding, decides bool) {
	all := strings.Join(referencesOf(matches[:min(len(matches), 10)]), ", ")
	switch {
	case s.heuristic:
		return inconclusive("%d objects look like it; a person must compare: %s", len(matches), all), false
	case s.severalIsDoubt:
		return inconclusive("%d objects match: %s", len(matches), all), false
	default:
		return actions.Finding{Kind: actions.Several, References: referencesOf(matches), Detail: all}, true
	}
}

// allFailed says what more than one object means where each ended without an
// effect.
func (s *search) allFailed() (f actions.Finding, decides bool) {
	if s.heuristic || s.ours != nil {
		return inconclusive("%d objects match, and all of them failed", len(s.matches)), false
	}
	for _, m := range s.matches {
		if pending, f := s.isPending(m); pending {
			return f, true
		}
	}
	return s.ended(s.matches[len(s.matches)-1]), true
}

func referencesOf(matches []match) []string {
	references := make([]string, len(matches))
	for i, m := range matches {
		references[i] = m.name()
	}
	return references
}
