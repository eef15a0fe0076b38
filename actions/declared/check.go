package declared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/actions/sqlaction"
)

// Check reports what is wrong with the providers and actions of a set: it compiles
// every expression, renders every example and compares it with what is wanted,
// and classifies every answer that rules and examples give. It needs no secret
// and no network. The error says that nothing could be checked.
func Check(set *definition.Set) ([]definition.Fault, error) {
	envs, err := newEnvironments()
	if err != nil {
		return nil, err
	}
	var faults []definition.Fault
	report := func(file string, problems []Problem) {
		for _, p := range problems {
			faults = append(faults, set.Fault(file, p.Field, p.Text))
		}
	}
	contracts := map[string]*contract{}
	for _, name := range slices.Sorted(maps.Keys(set.Providers)) {
		p := set.Providers[name]
		if p.HTTP == nil {
			c := &compiler{envs: envs}
			c.sharedSecrets(p)
			report(p.Place.File, c.problems)
			continue
		}
		c := &compiler{envs: envs}
		contracts[name] = newContract(c, p)
		if len(c.problems) == 0 {
			c.simulatedRules(contracts[name], "outcomes", p.Outcomes, contracts[name].rules)
		}
		if p.Webhooks != nil {
			newSource(c, p, Options{Secret: noSecret})
		}
		report(p.Place.File, c.problems)
	}
	for _, name := range slices.Sorted(maps.Keys(set.Actions)) {
		a := set.Actions[name]
		c := &compiler{envs: envs}
		k := contracts[a.Provider]
		if k == nil {
			c.elsewherePerformed(set.Providers[a.Provider], a)
			report(a.Place.File, c.problems)
			continue
		}
		if out := newAction(c, k, a); out != nil && len(c.problems) == 0 {
			c.simulatedRules(k, "outcomes", a.Outcomes, out.rules)
			c.registrable(out)
			for i, e := range a.Examples {
				c.example(element("examples", i), out, e)
			}
		}
		report(a.Place.File, c.problems)
	}
	return faults, nil
}

// sharedSecrets refuses secrets of tenants where all tenants share a connection.
func (c *compiler) sharedSecrets(p *definition.Provider) {
	refs := map[string]*definition.Secret{}
	if p.SQL != nil {
		refs["sql.url"] = p.SQL.URL
	}
	if p.SMTP != nil {
		refs["smtp.user"], refs["smtp.password"] = p.SMTP.User, p.SMTP.Password
	}
	for _, field := range slices.Sorted(maps.Keys(refs)) {
		if ref := refs[field]; ref != nil && (strings.Contains(ref.File, "${tenant}") || strings.Contains(ref.Env, "${TENANT}")) {
			c.bad(field, "cannot be the tenant's own: all tenants share this connection; declare a provider for each")
		}
	}
}

// elsewherePerformed checks an action that does not speak HTTP.
func (c *compiler) elsewherePerformed(p *definition.Provider, a *definition.Action) {
	var spec actions.Spec
	var costs spending
	var try func(actions.Call) error
	switch p.Adapter {
	case definition.AdapterSQL:
		if s := newStatement(c, p, a); s != nil {
			spec, costs, try = s.spec, s.spending, func(call actions.Call) error {
				_, err := s.parameters(call)
				return errors.Join(s.validate(call.Arguments), err)
			}
			if _, err := sqlaction.NewDeclaredLocal(s.spec, nil, sqlaction.Declared{SQL: s.sql}); err != nil {
				c.bad("statement.sql", "%v", err)
			}
		}
	case definition.AdapterSMTP:
		if m := newMessage(c, p, a); m != nil {
			spec, costs, try = m.spec, m.spending, func(call actions.Call) error {
				_, err := m.message(call)
				return errors.Join(m.validate(call.Arguments), err)
			}
		}
	}
	if len(c.problems) > 0 || try == nil {
		return
	}
	if _, err := actions.NewRegistry(described{spec}); err != nil {
		c.bad("", "%v", err)
	}
	for i, e := range a.Examples {
		text, err := json.Marshal(e.Arguments)
		call := exampleCall()
		if err == nil {
			call.Arguments, err = actions.ParseArguments(text)
		}
		if err == nil {
			err = try(call)
		}
		if err != nil {
			c.bad(element("examples", i), "cannot be rendered: %v", err)
			continue
		}
		c.goals(element("examples", i), spec, costs, call.Arguments)
	}
}

// described is an adapter that is looked at only.
type described struct{ spec actions.Spec }

// Spec implements actions.Adapter.
func (d described) Spec() actions.Spec { return d.spec }

// Validate implements actions.Adapter.
func (described) Validate(actions.Arguments) error { return nil }

// Execute implements actions.Adapter.
func (described) Execute(context.Context, actions.Call) actions.Outcome { return actions.Outcome{} }

func noSecret(definition.Secret, string) (string, error) {
	return "", errors.New("secrets are not resolved here")
}

// registrable tries what a server does with an adapter at its start.
func (c *compiler) registrable(a *action) {
	if _, err := actions.NewRegistry(&writer{action: a}); err != nil {
		c.bad("", "%v", err)
	}
}

// simulatedRules classifies the answers that rules are about: each must be what
// its own rule says. rules begin with the compiled ones of this file.
func (c *compiler) simulatedRules(k *contract, field string, declared []definition.Rule, rules []rule) {
	for i, r := range declared {
		if r.Simulate == nil {
			continue
		}
		at := element(field, i) + ".simulate"
		code := "error"
		if len(r.Code) > 0 {
			code = r.Code[0]
		}
		x, ok := c.exchange(at, *r.Simulate, code)
		if !ok {
			continue
		}
		ans := newAnswer(x, exampleVars(k), k.errors)
		switch fitting := slices.IndexFunc(rules, func(r rule) bool { return k.decides(r, ans) }); {
		case fitting == i:
		case fitting < 0 && rules[i].fits(ans):
			c.bad(at, "this answer fits, and does not prove that the provider gave it, which is: %s needs; want a JSON object, or origin.if", rules[i].kind)
		case fitting < 0:
			c.bad(at, "this answer does not fit the rule that it is of")
		default:
			c.bad(at, "this answer fits %s first, which says %s", element(field, fitting), rules[fitting].kind)
		}
	}
}

// exampleCall are the values that stand for a call where there is none.
func exampleCall() actions.Call {
	return actions.Call{Tenant: "example", OperationID: "01890a5d-ac96-774b-bcce-b302099a8057", ProviderKey: "0123456789abcdefghijklmnop"}
}

func exampleVars(k *contract) expr.Vars {
	call := exampleCall()
	return callVars(call, call.ProviderKey, k.config)
}

// example renders one example and classifies its answers.
func (c *compiler) example(field string, a *action, e definition.Example) {
	text, err := json.Marshal(e.Arguments)
	call := exampleCall()
	if err == nil {
		call.Arguments, err = actions.ParseArguments(text)
	}
	if err == nil {
		err = a.checks.validate(call.Arguments)
	}
	if err != nil {
		c.bad(field+".arguments", "%v", err)
		return
	}
	c.goals(field, a.spec, a.spending, call.Arguments)
	r, vars, err := a.render(call, a.contract.to)
	if err == nil {
		_, err = r.Bytes()
	}
	if err != nil {
		c.bad(field, "cannot be rendered: %v", err)
		return
	}
	c.reaches(field, a, call, r)
	if e.Request != nil {
		c.compare(field+".request", *e.Request, r, vars)
	}
	for i, ea := range e.Answers {
		at := fmt.Sprintf("%s.answers[%d]", field, i)
		x, ok := c.exchange(at, ea.Answer, "error")
		if !ok {
			continue
		}
		o := a.classify(x, vars)
		switch {
		case o.Kind.String() != ea.Is:
			c.bad(at+".is", "this answer is %s%s", o.Kind, because(o))
		case ea.Reference != "" && o.Receipt.Reference != ea.Reference:
			c.bad(at+".reference", "the reference in this answer is %q", o.Receipt.Reference)
		}
	}
}

func because(o actions.Outcome) string {
	if o.Failure.Message == "" {
		return ""
	}
	return ": " + o.Failure.Message
}

// reaches wants the key in the request, and the request at a place where requests
// may go.
func (c *compiler) reaches(field string, a *action, call actions.Call, r httpaction.Request) {
	if !slices.ContainsFunc(a.contract.to.origins, func(origin string) bool { return strings.HasPrefix(r.URL, origin+"/") || r.URL == origin }) {
		c.bad(field, "%s is on none of the provider's origins: add it to http.hosts", r.URL)
	}
	if a.keys == nil {
		return
	}
	one, _ := r.Bytes()
	call.ProviderKey = "ponmlkjihgfedcba9876543210"
	other, _, err := a.render(call, a.contract.to)
	if err != nil {
		return
	}
	if another, err := other.Bytes(); err == nil && string(one) == string(another) {
		c.bad("request", "our key is nowhere in it")
	}
}

// compare compares a request with what is wanted.
func (c *compiler) compare(field string, want definition.ExampleRequest, r httpaction.Request, vars expr.Vars) {
	key, _ := vars["key"].(string)
	fill := strings.NewReplacer("${key}", key, "${operation.id}", exampleCall().OperationID).Replace
	for _, part := range []struct{ name, want, got string }{
		{"method", want.Method, r.Method}, {"url", fill(want.URL), r.URL}, {"body", fill(want.Body), string(r.Body)},
	} {
		if part.want != part.got && (part.name != "body" || want.Body != "") {
			c.bad(field+"."+part.name, "what is sent is %s", part.got)
		}
	}
}

// exchange makes an exchange of an answer in a file.
func (c *compiler) exchange(field string, a definition.Answer, code string) (httpaction.Exchange, bool) {
	x := httpaction.Exchange{Status: a.Status, Header: http.Header{}, Complete: true, Phase: httpaction.PhaseDone, Evidence: fmt.Sprintf("HTTP %d", a.Status)}
	vars := expr.Vars{"code": code, "message": "message"}
	problems := len(c.problems)
	text := func(field, template string) string {
		t := c.template(c.envs.simulated, field, template)
		if t == nil {
			return ""
		}
		filled, err := t.Text(vars, nil)
		if err != nil {
			c.bad(field, "%v", err)
		}
		return filled
	}
	switch {
	case a.JSON != nil:
		x.Header.Set("Content-Type", mediaJSON)
		tree := c.tree(c.envs.simulated, field+".json", a.JSON)
		if tree == nil {
			break
		}
		value, err := tree.Value(vars)
		if err == nil {
			x.Body, err = expr.Encode(value)
		}
		if err != nil {
			c.bad(field+".json", "%v", err)
		}
	case a.Text != nil:
		x.Header.Set("Content-Type", "text/plain")
		x.Body = []byte(text(field+".text", *a.Text))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		x.Header.Set(name, text(member(field+".header", name), a.Header[name]))
	}
	return x, len(c.problems) == problems
}
