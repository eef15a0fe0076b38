package declared

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// lookup is a compiled look-up. It is immutable and safe for concurrent use.
type lookup struct {
	name           string
	needsReference bool
	request        *request
	graphQL        bool
	item, items    *expr.Expression // exactly one is set
	match, ours    *expr.Expression
	absent         *expr.Expression
	pending        *expr.Expression
	failed         *expr.Expression
	every          time.Duration
	next           *expr.Expression
	nextIsLink     bool
	maxPages       int
	severalIsDoubt bool
	// heuristic: what matches looks like it. It is never a finding, and a hint for
	// a person.
	heuristic     bool
	provesAbsence bool
	receipt       *receipt
	classifier    *httpaction.Classifier // of the provider's rules alone
}

const (
	defaultPages = 10
	maxItems     = 10_000 // of one look-up, over all pages
)

// lookup compiles a look-up.
func (c *compiler) lookup(field string, k *contract, a *definition.Action, l *definition.Lookup) *lookup {
	env := c.envs
	out := &lookup{
		name: l.Name, needsReference: l.Needs == "reference", graphQL: l.Request.GraphQL != nil,
		request:        c.request(env.search, field+".request", &l.Request, k.p.HTTP.Headers, nil),
		item:           c.expression(env.found, field+".item", l.Item),
		items:          c.expression(env.found, field+".items", l.Items),
		match:          c.expression(env.item, field+".match", l.Match),
		ours:           c.expression(env.item, field+".ours", l.Ours),
		absent:         c.expression(env.found, field+".absent", l.Absent),
		pending:        c.expression(env.item, field+".pending", l.Pending),
		failed:         c.expression(env.item, field+".failed", l.Failed),
		every:          l.Every.Std(),
		severalIsDoubt: l.Several == "inconclusive",
		heuristic:      l.Strength != "strong" && l.Strength != "indexed",
		provesAbsence:  l.Absence != nil,
		maxPages:       1,
	}
	if l.Needs != "" && l.Needs != "reference" {
		c.bad(field+".needs", "%q is unknown: want reference", l.Needs)
	}
	if out.provesAbsence && (out.needsReference || out.heuristic) {
		c.bad(field+".absence", "a look-up that is heuristic or needs a reference proves no absence")
	}
	if (l.Item == "") == (l.Items == "") {
		c.bad(field, "want either item or items")
	}
	if l.Items != "" && l.Match == "" {
		c.bad(field, "items want a match: which of them is the effect of this operation")
	}
	if l.Item != "" && l.Match == "" && l.Ours == "" && l.Needs == "" {
		c.bad(field, "wants a match, ours, or needs: reference: else whatever is there would be the effect of this operation")
	}
	switch l.Request.Method {
	case http.MethodGet:
		if out.request.body != nil {
			c.bad(field+".request", "a GET has no body")
		}
	case http.MethodPost:
	default:
		c.bad(field+".request.method", "a look-up is a GET, or a POST that searches")
	}
	if l.Receipt != nil {
		out.receipt = c.receipt(env.item, field+".receipt", l.Receipt)
	} else {
		out.receipt = c.receipt(env.item, "receipt", a.Receipt)
	}
	if l.Pages != nil {
		c.pages(field+".pages", l, out)
	}
	var err error
	if out.classifier, err = k.classifier(k.rules, nil); err != nil {
		c.bad("outcomes", "%v", err)
	}
	return out
}

func (c *compiler) pages(field string, l *definition.Lookup, out *lookup) {
	out.maxPages = l.Pages.Max
	if out.maxPages == 0 {
		out.maxPages = defaultPages
	}
	if l.Pages.Next == "link" {
		out.nextIsLink = true
		if l.Request.Method != http.MethodGet {
			c.bad(field+".next", "a link is followed by GET, and this look-up is a %s", l.Request.Method)
		}
		return
	}
	if out.next = c.expression(c.envs.found, field+".next", l.Pages.Next); l.Pages.Next == "" {
		c.bad(field+".next", "is empty")
	}
}

// lookUp climbs the look-ups in their order. The first that knows something
// (Found, Several, Foreign, Ended, or an object that is still worked on) decides;
// what comes after it is not asked. Absent is said only when a look-up that can
// prove it found nothing and no other one was left in doubt: each is a place
// where the effect could be. A look-up that finds nothing and cannot prove
// absence says nothing, nor does one that needs a reference where there is none.
func (a *action) lookUp(ctx context.Context, conn *Connection, q actions.Query) actions.Finding {
	key, err := a.keys.shape(q.ProviderKey)
	if err != nil {
		return actions.Finding{Detail: httpaction.SafeText(err.Error())}
	}
	vars := callVars(q.Call, key, a.contract.config)
	vars["reference"], vars["first_sent"], vars["last_sent"] = q.ProviderReference, q.FirstSentAt, q.LastSentAt
	var absent, doubt bool
	var after time.Duration
	var details []string
	for _, l := range a.lookups {
		if l.needsReference && q.ProviderReference == "" {
			continue
		}
		s := &search{lookup: l, contract: a.contract, conn: conn, query: q, vars: vars}
		f, decides := s.run(ctx)
		f.Detail = httpaction.SafeText(l.name + ": " + f.Detail)
		if decides {
			return f
		}
		details, after = append(details, f.Detail), max(after, f.After)
		if f.Kind == actions.Absent {
			absent = absent || l.provesAbsence
		} else {
			doubt = true
		}
	}
	f := actions.Finding{Detail: httpaction.SafeText(strings.Join(details, "; ")), After: after}
	switch {
	case absent && !doubt:
		f.Kind = actions.Absent
	case len(details) == 0:
		f.Detail = "every look-up needs the provider's reference, and there is none"
	}
	return f
}
