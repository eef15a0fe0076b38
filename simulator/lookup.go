package simulator

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// finder is a compiled look-up.
type finder struct {
	a     *action
	of    *definition.Lookup
	find  *expr.Expression // nil: by the reference of the path, or all
	some  *answer          // nil: at
	none  *answer          // nil: some without objects, or 404
	where []string         // in the body, of what is found
}

func lookupMethod(r *definition.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return methodOf(r)
}

// lookup compiles a look-up of the action.
func (a *action) lookup(i int) fakeprovider.Lookup {
	of := &a.of.Lookups[i]
	at, field := a.of.Place, fmt.Sprintf("lookups[%d]", i)
	f := &finder{a: a, of: of}
	if sim := of.Simulate; sim != nil {
		f.find = a.s.expression(a.s.play, at, field+".simulate.find", sim.Find)
		f.some = a.s.answer(at, field+".simulate.some", sim.Some)
		f.none = a.s.answer(at, field+".simulate.none", sim.None)
	}
	if f.some == nil {
		where, ok := simplePath(of.Item + of.Items)
		if !ok {
			a.s.bad(at, field+".simulate.some", "is missing: the simulator cannot tell from %q what the answer looks like", of.Item+of.Items)
		}
		f.where = where
	}
	out := fakeprovider.Lookup{
		Method: lookupMethod(&of.Request), Path: a.s.path(at, field+".request.path", of.Request.Path),
		ByID: of.Needs == "reference", Answer: f.answer,
	}
	if out.Method != http.MethodGet {
		request := of.Request
		request.Method = out.Method
		out.Match = a.s.match(&request)
	}
	if of.Simulate != nil && of.Simulate.Lag {
		out.Lag = a.s.lag(of)
	}
	return out
}

// lag is how long a new object stays invisible: shorter than the settle time, or
// the contract would be wrong.
func (s *simulation) lag(l *definition.Lookup) time.Duration {
	switch {
	case s.options.LookupLag > 0:
		return s.options.LookupLag
	case l.Absence != nil && l.Absence.SettleTime > 0:
		return l.Absence.SettleTime.Std() / 2
	default:
		return defaultLag
	}
}

// answer tells what is found.
func (f *finder) answer(c *fakeprovider.Call, visible []fakeprovider.Object) (fakeprovider.Answer, bool) {
	request, err := requestOf(c)
	if err != nil {
		return f.a.s.failure(fakeprovider.Failure{
			Status: http.StatusBadRequest, Code: "invalid_request", Message: "The simulator cannot read the request: " + err.Error() + ".",
		}), false
	}
	found := []any{}
	var trouble error
	for _, o := range visible {
		object, there := f.a.seen(o)
		if !there {
			continue
		}
		ok, err := f.finds(c, request, o, object)
		if err != nil {
			trouble = err
		}
		if ok {
			found = append(found, object)
		}
	}
	out, err := f.say(request, found)
	if err != nil {
		out = f.a.s.broken("look-up "+f.of.Name, err)
	}
	if trouble != nil {
		// For whoever wonders why nothing is found; no contract reads it.
		out.Header = out.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set("Simulator-Note", strconv.QuoteToASCII("simulate.find: "+trouble.Error()))
	}
	return out, len(found) > 0
}

func (f *finder) finds(c *fakeprovider.Call, request map[string]any, o fakeprovider.Object, object any) (bool, error) {
	if f.find == nil {
		reference := c.Value("reference")
		return reference == "" || reference == o.ID, nil
	}
	vars := f.a.s.vars(request)
	vars["object"], vars["id"], vars["key"] = object, o.ID, o.Key
	return f.find.Bool(vars)
}

func (f *finder) say(request map[string]any, found []any) (fakeprovider.Answer, error) {
	vars := f.a.s.vars(request)
	vars["objects"] = found
	if len(found) > 0 {
		vars["object"] = found[0]
	}
	switch {
	case len(found) == 0 && f.none != nil:
		out, _, err := f.none.render(vars)
		return out, err
	case len(found) == 0 && f.of.Item != "":
		return f.a.s.failure(fakeprovider.Failure{
			Status: http.StatusNotFound, Type: "invalid_request_error", Code: "not_found", Message: "There is no such object.",
		}), nil
	case f.some != nil:
		out, _, err := f.some.render(vars)
		return out, err
	}
	var value any = found
	if f.of.Item != "" {
		value = found[0]
	}
	for i := len(f.where) - 1; i >= 0; i-- {
		value = map[string]any{f.where[i]: value}
	}
	body, err := encode(value)
	return fakeprovider.Answer{Status: http.StatusOK, Body: body}, err
}

// simplePath reads "body.a.b": a, b.
func simplePath(expression string) ([]string, bool) {
	text := strings.TrimSpace(expression)
	if !regexp.MustCompile(`^body(\.[A-Za-z_][A-Za-z0-9_]*)*$`).MatchString(text) {
		return nil, false
	}
	return strings.Split(text, ".")[1:], true
}

// memberOf is a member of an object, or an item of a list; nil where there is
// none.
func memberOf(value any, name string) any {
	switch v := value.(type) {
	case map[string]any:
		return v[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

func indexName(i int) string { return strconv.Itoa(i) }
