package declared

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// search is one run of a look-up.
type search struct {
	*lookup
	contract *contract
	conn     *Connection
	query    actions.Query
	vars     expr.Vars // of the query

	read    int // items so far
	matches []match
	untold  error // why an object could not be compared; nil where all could
}

// match is an object that may be the effect.
type match struct {
	vars      expr.Vars // item, the answer it was in, and the query
	reference string    // empty where it has none that can be read
	failed    bool
	untold    error // why it cannot be told whether it failed
}

// inconclusive is the finding of a look-up that cannot say.
func inconclusive(format string, args ...any) actions.Finding {
	return actions.Finding{Detail: fmt.Sprintf(format, args...)}
}

// run asks for all pages and judges what was found. decides is false where other
// look-ups may know more.
func (s *search) run(ctx context.Context) (f actions.Finding, decides bool) {
	complete, f := s.readAll(ctx)
	// What ended without an effect is no effect, as long as another one is there.
	var live []match
	for _, m := range s.matches {
		if !m.failed {
			live = append(live, m)
		}
	}
	switch {
	case len(live) > 1:
		return s.severalMatches(live) // more pages could only add to them
	case !complete:
		if len(live) == 1 {
			f.Detail += "; so far there is " + live[0].name()
		}
		return f, false
	case len(live) == 1:
		return s.oneMatch(live[0])
	case len(s.matches) > 1:
		return s.allFailed()
	case len(s.matches) == 1:
		return s.oneMatch(s.matches[0])
	case s.untold != nil:
		return inconclusive("nothing found, and an object cannot be compared: %v", s.untold), false
	default:
		return actions.Finding{Kind: actions.Absent, Detail: "nothing found"}, false
	}
}

// readAll reads page after page. It is complete when the last one was read;
// otherwise the finding says what is in the way.
func (s *search) readAll(ctx context.Context) (complete bool, f actions.Finding) {
	s.vars["page"] = expr.Omitted
	r, err := s.request.render(s.vars, s.conn.to, "", s.query.OperationID)
	if err != nil {
		return false, inconclusive("the request cannot be made: %v", err)
	}
	var last any
	for range s.maxPages {
		ans := newAnswer(s.conn.ask(ctx, s.query.Tenant, r), s.vars, s.contract.errors)
		nothing, ok, f := s.readPage(ans)
		if !ok {
			return false, f
		}
		if nothing || s.next == nil && !s.nextIsLink {
			return true, f
		}
		next, more, err := s.following(ans, r)
		switch {
		case err != nil:
			return false, inconclusive("the next page: %v", err)
		case !more:
			return true, f
		case reflect.DeepEqual(next, last):
			return false, inconclusive("a page names itself as the next one")
		}
		last = next
		if s.nextIsLink {
			r.URL, _ = next.(string)
			continue
		}
		s.vars["page"] = expr.Some{Value: next}
		if r, err = s.request.render(s.vars, s.conn.to, "", s.query.OperationID); err != nil {
			return false, inconclusive("the request of the next page cannot be made: %v", err)
		}
	}
	return false, inconclusive("the list goes on after %d pages", s.maxPages)
}

// readPage collects the matches of one answer. nothing means that the provider
// says so itself; not ok that the answer proves nothing.
func (s *search) readPage(ans *answer) (nothing, ok bool, f actions.Finding) {
	x := ans.x
	if !x.Complete {
		return false, false, inconclusive("%s", x.Evidence)
	}
	x.Parsed = ans
	o := s.classifier.Classify(x)
	if o.Kind == actions.RateLimited {
		f = inconclusive("%s: the provider takes no more requests now", x.Evidence)
		f.After = o.RetryAfter
		return false, false, f
	}
	if !s.fromProvider(ans) {
		return false, false, inconclusive("%s: not the provider's own answer", x.Evidence)
	}
	// Neither an error of the provider's nor an answer that points elsewhere says
	// what is there.
	if s.absent != nil && (x.Status < 300 || x.Status >= 400 && x.Status < 500) && ans.holds(s.absent) {
		return true, true, actions.Finding{}
	}
	if x.Status != http.StatusOK {
		return false, false, inconclusive("%s", x.Evidence)
	}
	if o.Kind != actions.Applied && o.Kind != actions.AppliedNoReceipt || s.graphQL && hasErrors(ans.vars["body"]) {
		return false, false, inconclusive("%s: the body says that it failed: %s", x.Evidence, o.Failure.Message)
	}
	list, err := s.itemsOf(ans)
	if err != nil {
		return false, false, inconclusive("%s: %v", x.Evidence, err)
	}
	if s.read += len(list); s.read > maxItems {
		return false, false, inconclusive("the list is longer than %d objects", maxItems)
	}
	for _, item := range list {
		s.consider(ans, item)
	}
	if s.item != nil && len(list) == 1 && len(s.matches) == 0 {
		return false, false, inconclusive("the provider answered with an object that is not the one that was asked for")
	}
	return false, true, actions.Finding{}
}

// fromProvider reports whether the provider itself answered. A list is as good
// as an object here.
func (s *search) fromProvider(ans *answer) bool {
	if origin := s.contract.origin; origin != nil {
		return ans.holds(origin)
	}
	value, ok := httpaction.JSONAnswer(ans.x)
	return ok && !isScalar(value)
}

func hasErrors(body any) bool {
	object, _ := body.(map[string]any)
	list, isList := object["errors"].([]any)
	return isList && len(list) > 0
}

// itemsOf returns the objects of an answer. One that is null or an empty optional
// is none.
func (s *search) itemsOf(ans *answer) ([]any, error) {
	if s.item != nil {
		value, err := s.item.Eval(ans.vars)
		if err != nil {
			return nil, fmt.Errorf("item: %w", err)
		}
		if value == nil || value == expr.Omitted {
			return nil, nil
		}
		return []any{value}, nil
	}
	value, err := s.items.Eval(ans.vars)
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	list, ok := value.([]any)
	if !ok {
		return nil, errors.New("items: is no list")
	}
	return list, nil
}

// consider takes an object that matches, once: a list that moves while it is read
// shows the same object on two pages.
func (s *search) consider(ans *answer, item any) {
	vars := maps.Clone(ans.vars)
	// An action's receipt reads the object as if it were the answer to the write.
	vars["item"], vars["body"] = item, item
	if s.match != nil {
		// One that cannot be compared is no find, and may be the effect.
		if ok, err := s.match.Bool(vars); err != nil || !ok {
			s.untold = cmp.Or(s.untold, err)
			return
		}
	}
	m := match{vars: vars}
	if s.failed != nil {
		failed, err := s.failed.Bool(vars)
		m.failed, m.untold = err == nil && failed, err
	}
	if receipt, err := s.receipt.read(vars); err == nil || receipt.Reference != "" {
		m.reference = receipt.Reference
	}
	for _, other := range s.matches {
		if m.reference != "" && other.reference == m.reference {
			return
		}
	}
	s.matches = append(s.matches, m)
}

func (m match) name() string {
	if m.reference == "" {
		return "an object without a reference"
	}
	return m.reference
}

// following returns what the next page is asked for with.
func (s *search) following(ans *answer, r httpaction.Request) (next any, more bool, err error) {
	if s.nextIsLink {
		return nextLink(ans.x.Header, r.URL)
	}
	next, err = s.next.Eval(ans.vars)
	if err != nil {
		return nil, false, err
	}
	switch v := next.(type) {
	case nil:
		return nil, false, nil
	case bool:
		if v {
			return nil, false, errors.New("is true, and should say which page")
		}
		return nil, false, nil
	case string:
		return v, v != "", nil
	case json.Number, []any, map[string]any:
		return v, true, nil
	default:
		if next == expr.Omitted {
			return nil, false, nil
		}
		return nil, false, errors.New("has no form that a page can have")
	}
}

// nextLink reads the Link header (RFC 8288): the target of rel="next", as an
// absolute URL.
func nextLink(header http.Header, from string) (any, bool, error) {
	for value := range strings.SplitSeq(strings.Join(header.Values("Link"), ","), "<") {
		target, parameters, ok := strings.Cut(value, ">")
		if !ok || !isNext(parameters) {
			continue
		}
		base, err := url.Parse(from)
		if err != nil {
			return nil, false, errors.New("the address of this page cannot be read")
		}
		to, err := base.Parse(target)
		if err != nil {
			return nil, false, errors.New("its link cannot be read")
		}
		return to.String(), true, nil
	}
	return nil, false, nil
}

// isNext reports whether the parameters of a link have rel="next".
func isNext(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.Trim(parameter, " \t,"), "=")
		if strings.EqualFold(strings.TrimSpace(name), "rel") {
			for relation := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
				if strings.EqualFold(relation, "next") {
					return true
				}
			}
		}
	}
	return false
}
