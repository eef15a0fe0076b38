package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onceward/onceward/actions"
)

// Methods of HTTP.
const (
	get  = "GET"
	post = "POST"
)

func (c *checker) action(a *Action) {
	provider := c.set.Providers[a.Provider]
	if provider == nil {
		c.fault("provider", "there is no provider %q in these files", a.Provider)
		return
	}
	if a.Version == "" {
		c.fault("version", "is empty: it is recorded with each operation")
	}
	c.performs(a, provider)
	schema := c.arguments(a)
	properties, _ := a.Arguments["properties"].(map[string]any)
	for i, name := range a.AdvisoryArgs {
		if _, known := properties[name]; !known {
			c.fault(fmt.Sprintf("advisory_args[%d]", i), "the arguments have no property %q", name)
		}
	}
	if a.Key != nil {
		c.recipe(a, properties)
	}
	c.goals(a, properties)
	for i, e := range a.Examples {
		c.example(fmt.Sprintf("examples[%d]", i), schema, e)
	}
	if a.Keys != nil {
		c.keys("keys", a.Keys)
	}
	c.rules("outcomes", a.Outcomes, provider.Errors)
	c.lookups(a)
	c.proofs(a, provider.Documents)
	c.texts(provider.Config)
	c.doubt(a, provider)
}

// performs wants the part that says what is done, and no other.
func (c *checker) performs(a *Action, p *Provider) {
	if p.Adapter == AdapterGRPC {
		c.fault("provider", "%s is an AdapterService: its action types come from Describe, and have no files", p.Name)
		return
	}
	want := map[string]string{AdapterHTTP: "request", AdapterSQL: "statement", AdapterSMTP: "mail"}[p.Adapter]
	if a.Mail != nil && a.Mail.Text == "" && a.Mail.HTML == "" {
		c.fault("mail", "want text, html or both")
	}
	for part, there := range map[string]bool{"request": a.Request != nil, "statement": a.Statement != nil, "mail": a.Mail != nil} {
		switch {
		case part == want && !there:
			c.fault("", "an action on %s (adapter: %s) wants the part %q", p.Name, p.Adapter, part)
		case part != want && there:
			c.fault(part, "does not belong to adapter: %s", p.Adapter)
		}
	}
	if p.Adapter != AdapterHTTP {
		for field, there := range map[string]bool{
			"receipt": a.Receipt != nil, "keys": a.Keys != nil, "outcomes": len(a.Outcomes) > 0, "lookups": len(a.Lookups) > 0,
		} {
			if there {
				c.fault(field, "has a meaning for adapter: http alone")
			}
		}
		return
	}
	if a.Receipt == nil {
		c.fault("", "an action on %s wants a receipt: what is kept of a success", p.Name)
	}
	if a.Request == nil {
		return
	}
	c.request("request", a.Request)
	if a.Request.Method == get {
		c.fault("request.method", "an action writes: GET does not")
	}
	keys := a.Keys
	if keys == nil {
		keys = p.Keys
	}
	if keys == nil {
		return
	}
	switch {
	case keys.Place == "template" && !a.Request.mentionsKey():
		c.fault("request", "the key's place is template, and no part of the request holds ${key}")
	case keys.Place == "field" && a.Request.JSON == nil && a.Request.Form == nil:
		c.fault("request", "the key's place is a field of the body, and there is no json or form")
	}
}

// doubt wants it said where nothing can resolve doubt but a person.
func (c *checker) doubt(a *Action, p *Provider) {
	keys := a.Keys
	if keys == nil {
		keys = p.Keys
	}
	again := keys != nil && keys.Place != "none" && keys.Window != 0
	if p.Adapter == AdapterHTTP && a.Doubt == "" && !again && len(a.Lookups) == 0 && p.Webhooks == nil {
		c.fault("", "neither keys with a window, nor look-ups, nor webhooks: a person must resolve each doubt; if that is wanted, say doubt: person")
	}
}

// arguments compiles the schema; nil where it is none.
func (c *checker) arguments(a *Action) *actions.Schema {
	raw, err := json.Marshal(a.Arguments)
	if err != nil {
		c.fault("arguments", "has no form in JSON: %v", err)
		return nil
	}
	schema, err := actions.CompileSchema(a.Type, raw)
	var unfit *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	switch {
	case errors.As(err, &unfit) && errors.As(unfit.Err, &invalid):
		for _, f := range c.set.docs[c.file].Misfits([]string{"arguments"}, invalid) {
			c.fault(f.Field, "is no schema: %s", f.Problem)
		}
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "schema: "), "\n")
		c.fault("arguments", "is no schema: %s", first)
	}
	return schema
}

func (c *checker) recipe(a *Action, properties map[string]any) {
	names := map[string]bool{}
	for i, part := range a.Key.Parts {
		field := fmt.Sprintf("key.parts[%d]", i)
		if part.Name == "distinct" {
			c.fault(field+".name", "is taken: it marks a deliberate second action")
		}
		if names[part.Name] {
			c.fault(field+".name", "%q is used twice", part.Name)
		}
		names[part.Name] = true
		path, isArgument := strings.CutPrefix(part.From, "arguments.")
		if !isArgument {
			if !slices.Contains([]string{"tenant", "action", "run", "step"}, part.From) {
				c.fault(field+".from", "want tenant, action, run, step or arguments.<path>")
			}
			continue
		}
		top, _, _ := strings.Cut(path, ".")
		if _, known := properties[top]; !known {
			c.fault(field+".from", "the arguments have no property %q", top)
		}
		if slices.Contains(a.AdvisoryArgs, top) {
			c.fault(field+".from", "%q is advisory: it cannot identify the action", top)
		}
	}
}

func (c *checker) example(field string, schema *actions.Schema, e Example) {
	raw, err := json.Marshal(e.Arguments)
	if err != nil {
		c.fault(field+".arguments", "have no form in JSON: %v", err)
		return
	}
	args, err := actions.ParseArguments(raw)
	if err == nil && schema != nil {
		err = schema.Validate(args)
	}
	if err == nil {
		return
	}
	var refused *actions.ArgumentsError
	if !errors.As(err, &refused) {
		c.fault(field+".arguments", "%v", err)
		return
	}
	for _, v := range refused.Violations {
		c.fault(strings.TrimSuffix(field+".arguments."+v.Field, "."), "%s", v.Message)
	}
}

func (c *checker) lookups(a *Action) {
	resolves := a.MaxResolves
	if resolves == 0 {
		resolves = actions.DefaultMaxResolves
	}
	names := map[string]bool{}
	for i, l := range a.Lookups {
		field := fmt.Sprintf("lookups[%d]", i)
		if names[l.Name] {
			c.fault(field+".name", "%q is used twice", l.Name)
		}
		names[l.Name] = true
		c.request(field+".request", &l.Request)
		if l.Request.Method != get && l.Request.Method != post {
			c.fault(field+".request.method", "a look-up is a GET, or a POST that searches")
		}
		if (l.Item == "") == (l.Items == "") {
			c.fault(field, "want either item or items")
		}
		if l.Items != "" && l.Match == "" {
			c.fault(field, "items want a match: which of them is the effect of this operation")
		}
		if l.Items == "" && (l.Pages != nil || l.Several != "") {
			c.fault(field, "pages and several go with items")
		}
		if l.Every != 0 && l.Pending == "" {
			c.fault(field+".every", "goes with pending")
		}
		if l.Absence != nil && (l.Strength == "" || l.Strength == "heuristic") {
			c.fault(field+".absence", "a heuristic look-up cannot prove that nothing is there: want strength strong or indexed")
		}
		if l.Absence != nil && readsOf(l.Absence) >= resolves {
			c.fault(field+".absence.reads", "%d reads in a row never fit into max_resolves: %d", readsOf(l.Absence), resolves)
		}
		if l.Absence != nil && l.Needs != "" {
			c.fault(field+".absence", "a look-up that needs a reference proves no absence: a reference says that the effect was there")
		}
		if l.Absence != nil && l.Strength == "indexed" && l.Absence.SettleTime == 0 {
			c.fault(field+".absence.settle_time", "an index lags: want the longest time that it does")
		}
	}
}

func readsOf(a *Absence) int {
	if a.Reads == 0 {
		return actions.DefaultNegativeReads
	}
	return a.Reads
}
