package declared

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// kindOf reads the name of an outcome.
func kindOf(name string) (actions.Kind, bool) {
	for kind := actions.Ambiguous; kind <= actions.RateLimited; kind++ {
		if kind.String() == name {
			return kind, true
		}
	}
	return actions.Ambiguous, false
}

// rule is a compiled rule: everything that is set must hold.
type rule struct {
	statuses []definition.StatusRange
	codes    []string
	headers  []headerPattern
	holds    *expr.Expression

	kind        actions.Kind
	correctable bool
	because     string
	wait        time.Duration
}

type headerPattern struct {
	name    string
	pattern *regexp.Regexp
}

// rules compiles outcome rules in their order.
func (c *compiler) rules(field string, rules []definition.Rule) []rule {
	out := make([]rule, 0, len(rules))
	for i, r := range rules {
		at := element(field, i)
		kind, known := kindOf(r.Is)
		if !known {
			c.bad(at+".is", "%q is no outcome", r.Is)
		}
		if len(r.Status)+len(r.Code)+len(r.Header) == 0 && r.If == "" {
			c.bad(at, "wants a condition: status, code, header or if")
		}
		compiled := rule{
			statuses: r.Status, codes: r.Code, holds: c.expression(c.envs.answer, at+".if", r.If),
			kind: kind, correctable: r.Correctable, because: r.Because, wait: r.Wait.Std(),
		}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			pattern, err := regexp.Compile(r.Header[name])
			if err != nil {
				c.bad(member(at+".header", name), "is no RE2 pattern: %v", err)
				continue
			}
			compiled.headers = append(compiled.headers, headerPattern{name, pattern})
		}
		out = append(out, compiled)
	}
	return out
}

// claimsNothingApplied reports the kinds after which a request is made again, or
// given up.
func claimsNothingApplied(kind actions.Kind) bool {
	return kind == actions.Rejected || kind == actions.NotApplied || kind == actions.RateLimited
}

// decides reports whether a rule says what an answer means. A rule that claims
// that nothing was applied needs the provider's own answer, as the table does: a
// gateway that lost the answer says 503 too. The statuses that say it whoever
// sends them are the table's.
func (k *contract) decides(r rule, a *answer) bool {
	if !r.fits(a) {
		return false
	}
	if !claimsNothingApplied(r.kind) || slices.Contains(sayItThemselves, a.x.Status) {
		return true
	}
	return isOwn(a, k.origin)
}

// isOwn reports whether the provider itself gave an answer; origin is its own
// proof, and nil the usual one.
func isOwn(a *answer, origin *expr.Expression) bool {
	if origin != nil {
		return a.x.Complete && a.holds(origin)
	}
	return httpaction.JSONOrigin(a.x)
}

// sayItThemselves are the statuses by whose definition the request was not
// processed.
var sayItThemselves = []int{http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests}

// fits reports whether a rule is about an answer.
func (r rule) fits(a *answer) bool {
	if len(r.statuses) > 0 && !slices.ContainsFunc(r.statuses, func(s definition.StatusRange) bool { return s.Has(a.x.Status) }) {
		return false
	}
	if len(r.codes) > 0 {
		if code, _ := a.failure(); !slices.Contains(r.codes, code) {
			return false
		}
	}
	for _, h := range r.headers {
		if !slices.ContainsFunc(a.x.Header.Values(h.name), h.pattern.MatchString) {
			return false
		}
	}
	return r.holds == nil || a.holds(r.holds)
}

// classifier makes the classifier of an action's rules and the provider's.
func (k *contract) classifier(rules []rule, receipt *receipt) (*httpaction.Classifier, error) {
	out := httpaction.Rules{
		Receipt: func(x httpaction.Exchange) (actions.Receipt, error) { return receipt.of(parsed(x), k.origin) },
		Failure: func(x httpaction.Exchange) (string, string) { return parsed(x).failure() },
		RetryAfter: func(x httpaction.Exchange) (time.Duration, bool) {
			return k.limits.read(parsed(x))
		},
		Wait: k.limits.usual,
	}
	if origin := k.origin; origin != nil {
		out.Origin = func(x httpaction.Exchange) bool { return parsed(x).holds(origin) }
	}
	for _, r := range rules {
		out.Overrides = append(out.Overrides, httpaction.Rule{
			When: func(x httpaction.Exchange) bool { return k.decides(r, parsed(x)) },
			Kind: r.kind, Correctable: r.correctable, Because: r.because, Wait: r.wait,
		})
	}
	classifier, err := httpaction.NewClassifier(out)
	if err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	return classifier, nil
}
