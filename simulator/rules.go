package simulator

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// Meanings of answers, as contracts name them, that the simulator gives by
// itself.
const (
	isRateLimited = "rate_limited"
	isRejected    = "rejected"
	isNotApplied  = "not_applied"
	isAmbiguous   = "ambiguous"
	isInProgress  = "in_progress"
	isKeyMismatch = "key_mismatch"
	isMaybeOurs   = "maybe_ours"
)

// rule is a compiled rule of a contract.
type rule struct {
	name   string // by which a fault can ask for its answer
	status []definition.StatusRange
	codes  []string
	header map[string]*regexp.Regexp
	when   *expr.Expression
	is     string
	answer *answer
	made   *fakeprovider.Answer // in the provider's shape of errors, where the contract has no answer
}

// rules compiles rules of a file.
func (s *simulation) rules(at definition.Place, all []definition.Rule) []rule {
	out := make([]rule, 0, len(all))
	for i, r := range all {
		field := fmt.Sprintf("outcomes[%d]", i)
		c := rule{
			name: field, status: r.Status, codes: r.Code, is: r.Is, header: map[string]*regexp.Regexp{},
			when: s.expression(s.answers, at, field+".if", r.If), answer: s.answer(at, field+".simulate", r.Simulate),
		}
		for name, pattern := range r.Header {
			re, err := regexp.Compile(pattern)
			if err != nil {
				s.bad(at, field+".header."+name, "%v", err)
			}
			c.header[name] = re
		}
		out = append(out, c)
	}
	return out
}

// playbook is what an action's provider answers, apart from successes.
type playbook struct {
	s     *simulation
	rules []rule // the action's, then the provider's
}

// newPlaybook puts an action's rules before its provider's, whose names then
// begin with "provider.".
func (s *simulation) newPlaybook(own, common []rule) *playbook {
	b := &playbook{s: s, rules: slices.Clone(own)}
	for _, r := range common {
		r.name = "provider." + r.name
		b.rules = append(b.rules, r)
	}
	for i := range b.rules {
		b.rules[i].made = b.make(&b.rules[i])
	}
	return b
}

// make makes an answer for a rule that comes without one: its first status and
// code in the provider's shape, if that is indeed what the rule is about.
func (b *playbook) make(r *rule) *fakeprovider.Answer {
	if r.answer != nil || len(r.status) == 0 {
		return nil
	}
	f := fakeprovider.Failure{Status: r.status[0].First, Code: r.is, Message: "Simulated: " + r.is + "."}
	if len(r.codes) > 0 {
		f.Code = r.codes[0]
	}
	a := b.s.failure(f)
	if b.meaning(a) != r.is {
		return nil
	}
	return &a
}

// meaning is what the rules say of an answer; empty where none fits.
func (b *playbook) meaning(a fakeprovider.Answer) string {
	header := map[string]any{"content-type": "application/json"}
	for name, values := range a.Header {
		if len(values) > 0 {
			header[strings.ToLower(name)] = values[0]
		}
	}
	body, err := parseJSON(a.Body)
	if err != nil {
		body = nil
	}
	vars := expr.Vars{
		"status": a.Status, "header": header, "body": body, "text": string(a.Body),
		"args": map[string]any{}, "operation": map[string]any{"id": ""}, "tenant": "", "key": "", "config": b.s.config,
	}
	code := ""
	if b.s.code != nil {
		code, _, _ = b.s.code.Text(vars) // an expression that fails is an empty code
	}
	for _, r := range b.rules {
		if r.fits(a, code, vars) {
			return r.is
		}
	}
	return ""
}

func (r *rule) fits(a fakeprovider.Answer, code string, vars expr.Vars) bool {
	if len(r.status) > 0 && !slices.ContainsFunc(r.status, func(s definition.StatusRange) bool { return s.Has(a.Status) }) {
		return false
	}
	if len(r.codes) > 0 && !slices.Contains(r.codes, code) {
		return false
	}
	for name, re := range r.header {
		if !slices.ContainsFunc(a.Header.Values(name), re.MatchString) {
			return false
		}
	}
	if r.when == nil {
		return true
	}
	ok, err := r.when.Bool(vars)
	return err == nil && ok
}

// first is the first rule of a meaning that has an answer with a status that ok
// takes (nil takes all); nil where there is none.
func (b *playbook) first(is string, ok func(status int) bool) *rule {
	for i := range b.rules {
		r := &b.rules[i]
		if r.is == is && r.answers() && (ok == nil || ok(r.answerStatus())) {
			return r
		}
	}
	return nil
}

// named is the rule of a name, or the first that has this meaning.
func (b *playbook) named(name string) *rule {
	for i := range b.rules {
		if b.rules[i].name == name {
			return &b.rules[i]
		}
	}
	return b.first(name, nil)
}

func (r *rule) answers() bool { return r.answer != nil || r.made != nil }

func (r *rule) answerStatus() int {
	if r.answer != nil {
		return r.answer.status
	}
	return r.made.Status
}

// tell is the answer that a rule is about; false where there is no rule, or it
// has none.
func (b *playbook) tell(r *rule, c *fakeprovider.Call, change func(expr.Vars)) (fakeprovider.Answer, bool) {
	switch {
	case r == nil:
		return fakeprovider.Answer{}, false
	case r.answer == nil && r.made != nil:
		return *r.made, true
	}
	return b.say(r.answer, c, change)
}

// say renders an answer of the contract; false where it has none.
func (b *playbook) say(a *answer, c *fakeprovider.Call, change func(expr.Vars)) (fakeprovider.Answer, bool) {
	if a == nil {
		return fakeprovider.Answer{}, false
	}
	request, _ := requestOf(c) // an error is an answer to an unreadable body, too
	vars := b.s.vars(request)
	vars["status"] = a.status
	if change != nil {
		change(vars)
	}
	out, _, err := a.render(vars)
	if err != nil {
		return b.s.broken("simulate", err), true
	}
	return out, true
}

// orElse is the contract's answer of a meaning, or an error in its shape.
func (b *playbook) orElse(is string, f fakeprovider.Failure) func(*fakeprovider.Call) fakeprovider.Answer {
	own := b.first(is, nil)
	return func(c *fakeprovider.Call) fakeprovider.Answer {
		if a, ok := b.tell(own, c, nil); ok {
			return a
		}
		return b.s.failure(f)
	}
}

// fault answers as the contract does. refusal is the action's own refusal; nil
// where it has none.
func (b *playbook) fault(refusal *answer) func(*fakeprovider.Call, fakeprovider.Fault) (fakeprovider.Answer, bool) {
	return func(c *fakeprovider.Call, f fakeprovider.Fault) (fakeprovider.Answer, bool) {
		wanted := func(status int) bool { return f.Status == 0 || f.Status == status }
		serverError := func(status int) bool { return status >= http.StatusInternalServerError && wanted(status) }
		switch f.Kind {
		case fakeprovider.RateLimited:
			return b.tell(b.first(isRateLimited, wanted), c, nil)
		case fakeprovider.Reject:
			if refusal != nil && wanted(refusal.status) {
				return b.say(refusal, c, nil)
			}
			return b.tell(b.first(isRejected, wanted), c, nil)
		case fakeprovider.ErrorBeforeApplying:
			return b.tell(b.first(isAmbiguous, serverError), c, nil)
		case fakeprovider.ErrorAfterApplying:
			if a, ok := b.tell(b.first(isAmbiguous, serverError), c, nil); ok {
				return a, true
			}
			return b.honestError(f.Status), true
		case fakeprovider.OwnAnswer:
			return b.tell(b.named(f.Answer), c, nil)
		default:
			return fakeprovider.Answer{}, false
		}
	}
}

// honestError is a server error after an effect. A contract may promise that
// some of them are without effect, and the simulator plays no provider that
// breaks its promise: such a status is replaced by the next that promises
// nothing.
func (b *playbook) honestError(status int) fakeprovider.Answer {
	for _, try := range []int{status, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 520, 599} {
		if try == 0 {
			continue
		}
		a := b.s.failure(fakeprovider.Failure{Status: try, Type: "api_error", Code: "internal_error", Message: "Something went wrong on our side."})
		switch b.meaning(a) {
		case isRejected, isNotApplied, isRateLimited, isKeyMismatch:
			continue
		case "":
			if try == http.StatusNotImplemented || try == http.StatusHTTPVersionNotSupported {
				continue // refusals by the standard table
			}
		}
		return a
	}
	return b.s.failure(fakeprovider.Failure{Status: http.StatusInternalServerError, Code: "internal_error"})
}
