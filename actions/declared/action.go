package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// action is a compiled action on a compiled provider: what needs neither secrets
// nor a network. It is immutable and safe for concurrent use.
type action struct {
	contract   *contract
	spec       actions.Spec
	checks     checks
	spending   spending
	request    *request
	keys       *keys
	receipt    *receipt
	rules      []rule // its own, then the provider's
	classifier *httpaction.Classifier
	lookups    []*lookup
}

// checks are compiled rules over arguments.
type checks []check

type check struct {
	holds          *expr.Expression
	field, message string
}

func (c *compiler) checks(declared []definition.Check) checks {
	var out checks
	for i, rule := range declared {
		out = append(out, check{c.expression(c.envs.arguments, element("checks", i)+".if", rule.If), rule.Field, rule.Message})
	}
	return out
}

// newAction compiles an action; everything that is wrong is in c. It returns nil
// where so much is missing that nothing can be made of it.
func newAction(c *compiler, k *contract, a *definition.Action) *action {
	if a.Request == nil || a.Receipt == nil || k.p.HTTP == nil {
		c.bad("", "an action on an HTTP provider wants a request and a receipt")
		return nil
	}
	out := &action{contract: k, checks: c.checks(a.Checks), spending: c.spending(a.Spending)}
	if a.Keys != nil {
		out.keys = c.keys("keys", a.Keys)
	} else {
		out.keys = c.elsewhere().keys("keys", k.p.Keys)
	}
	out.request = c.request(c.envs.request, "request", a.Request, k.p.HTTP.Headers, out.keys)
	out.receipt = c.receipt(c.envs.answer, "receipt", a.Receipt)
	out.rules = append(c.rules("outcomes", a.Outcomes), k.rules...)
	for i := range a.Lookups {
		out.lookups = append(out.lookups, c.lookup(element("lookups", i), k, a, &a.Lookups[i]))
	}
	var err error
	if out.spec, err = specOf(k.p, a, out.keys); err != nil {
		c.bad("arguments", "%v", err)
	}
	if len(c.problems) > 0 {
		return out
	}
	if out.classifier, err = k.classifier(out.rules, out.receipt); err != nil {
		c.bad("outcomes", "%v", err)
	}
	return out
}

// specOf describes an action to the rest of Onceward.
func specOf(p *definition.Provider, a *definition.Action, k *keys) (actions.Spec, error) {
	schema, err := json.Marshal(a.Arguments)
	if err != nil {
		return actions.Spec{}, fmt.Errorf("have no form in JSON: %w", err)
	}
	spec := actions.Spec{
		Type: a.Type, Version: a.Version, Description: a.Description, Owner: a.Owner, Risk: riskOf(a.Risk),
		Schema: schema, AdvisoryArgs: a.AdvisoryArgs,
		Timeout: a.Timeout.Std(), MaxAttempts: a.MaxAttempts, MaxResolves: a.MaxResolves, Window: a.Window.Std(),
		Contract: actions.Contract{
			Provider: p.Name, Version: p.Version, Lookup: lookupRules(a.Lookups), LateLanding: p.LateLanding.Std(),
		},
	}
	if a.ExpiredKey == actions.Reuse.String() {
		spec.ExpiredKey = actions.Reuse
	}
	if a.Key != nil {
		spec.HashKey = a.Key.Hashed
		for _, part := range a.Key.Parts {
			spec.Key = append(spec.Key, actions.KeyPart{Name: part.Name, From: part.From})
		}
	}
	if a.Approval != nil {
		spec.RequiresApproval, spec.ApprovalTTL = a.Approval.Required, a.Approval.TTL.Std()
	}
	if k != nil {
		spec.Contract.Keys = k.rules
	}
	addGoals(&spec, p, a)
	if p.Webhooks != nil {
		spec.Contract.EventWait = p.Webhooks.Wait.Std()
	}
	return spec, nil
}

func riskOf(name string) actions.Risk {
	for risk := actions.RiskLow; risk <= actions.RiskHigh; risk++ {
		if risk.String() == name {
			return risk
		}
	}
	return actions.RiskUnspecified
}

// lookupRules are those of all look-ups that can prove absence together: each
// must have had its time.
func lookupRules(lookups []definition.Lookup) actions.LookupRules {
	var rules actions.LookupRules
	for _, l := range lookups {
		if l.Absence == nil {
			continue
		}
		rules.Authoritative = true
		rules.SettleTime = max(rules.SettleTime, l.Absence.SettleTime.Std())
		rules.NegativeReads = max(rules.NegativeReads, l.Absence.Reads)
		rules.ReadGap = max(rules.ReadGap, l.Absence.Gap.Std())
	}
	return rules
}

// reasonCheck is the reason of a violation of a declared check.
const reasonCheck = "CHECK"

// validate tries the checks. One that fails to say is not passed.
func (all checks) validate(args actions.Arguments) error {
	vars := expr.Vars{"args": args.Value()}
	var violations []actions.Violation
	for _, c := range all {
		if ok, err := c.holds.Bool(vars); err != nil || !ok {
			violations = append(violations, actions.Violation{Field: c.field, Reason: reasonCheck, Message: c.message})
		}
	}
	if len(violations) > 0 {
		return &actions.ArgumentsError{Violations: violations}
	}
	return nil
}

// render makes the request of a call. vars are what expressions about its answer
// see.
func (a *action) render(call actions.Call, to target) (httpaction.Request, expr.Vars, error) {
	key, err := a.keys.shape(call.ProviderKey)
	vars := callVars(call, key, a.contract.config)
	if err != nil {
		return httpaction.Request{}, vars, err
	}
	if call.OperationID == "" {
		return httpaction.Request{}, vars, errors.New("the call has no operation id")
	}
	r, err := a.request.render(vars, to, key, call.OperationID)
	if err != nil {
		return r, vars, &unrenderableError{err}
	}
	return r, vars, nil
}

// reasonNotRenderable is the reason of a violation: arguments that pass the
// schema, and of which the request cannot be made.
const reasonNotRenderable = "NOT_RENDERABLE"

// unrenderableError is a request that these arguments do not make. To a planner
// it is an *actions.ArgumentsError that names the part of the request; why is for
// the log, since the text of an expression's error can repeat a value.
type unrenderableError struct{ cause error }

func (e *unrenderableError) Error() string { return e.cause.Error() }

// Unwrap returns what a planner may know, and the cause.
func (e *unrenderableError) Unwrap() []error {
	message := "no request can be made of these arguments"
	// What is before the colon is from the definition: "path", "header X", "body".
	if part, _, named := strings.Cut(e.cause.Error(), ":"); named {
		message += ": its " + part
	} else {
		message += ": it"
	}
	switch {
	case errors.Is(e.cause, errEmptySegment):
		message += " wants a value that is not empty"
	case errors.Is(e.cause, httpaction.ErrNotSendable):
		message = "no request can be made of these arguments: a value has a line break or another character that cannot be sent"
	default:
		message += " needs a value that is missing or of another form"
	}
	return []error{e.cause, &actions.ArgumentsError{Violations: []actions.Violation{{Reason: reasonNotRenderable, Message: message}}}}
}

// classify says what an exchange proves.
func (a *action) classify(x httpaction.Exchange, vars expr.Vars) actions.Outcome {
	ans := newAnswer(x, vars, a.contract.errors)
	x.Parsed = ans
	o := a.classifier.Classify(x)
	if o.Kind == actions.Applied {
		o.Failure.Evidence = a.remarks(ans)
	}
	return o
}

// remarks are for the audit record of a success: whether the answer is a stored
// one, and whether the provider took notice of our key. A success without that
// notice is one all the same; what cannot be trusted is the key.
func (a *action) remarks(ans *answer) string {
	if a.keys == nil {
		return ""
	}
	text := ""
	if a.keys.replayedBy != nil && ans.holds(a.keys.replayedBy) {
		text = "; the provider replayed a stored answer"
	}
	if a.keys.honouredBy != "" && ans.x.Header.Get(a.keys.honouredBy) == "" {
		text += "; no " + a.keys.honouredBy + " in the answer: the provider ignored our key"
	}
	if text == "" {
		return ""
	}
	return httpaction.SafeText(ans.x.Evidence + text)
}

// timeout is how long one attempt may take.
func (a *action) timeout() time.Duration { return a.spec.WithDefaults().Timeout }
