package declared

import (
	"regexp"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
)

// spending are the compiled expressions of what an action costs. They are
// compiled to be checked: who keeps budgets compiles them from the Spec.
type spending struct{ amount, currency, counterparty *expr.Expression }

func (c *compiler) spending(s *definition.Spending) spending {
	if s == nil {
		return spending{}
	}
	return spending{
		amount:       c.expression(c.envs.arguments, "spending.amount", s.Amount),
		currency:     c.expression(c.envs.arguments, "spending.currency", s.Currency),
		counterparty: c.expression(c.envs.arguments, "spending.counterparty", s.Counterparty),
	}
}

var (
	exactAmount  = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})([.][0-9]{1,9})?$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
)

// goals tries what a request with the arguments of an example costs and is for.
func (c *compiler) goals(example string, spec actions.Spec, costs spending, args actions.Arguments) {
	costs.try(c, example, args)
	c.intents(example, spec, args)
}

// try evaluates the expressions for the arguments of an example. What fails here
// would refuse the request.
func (s spending) try(c *compiler, example string, args actions.Arguments) {
	vars := expr.Vars{"args": args.Value()}
	text := func(field string, x *expr.Expression) (string, bool) {
		if x == nil {
			return "", false
		}
		value, there, err := x.Text(vars)
		if err != nil {
			c.bad("spending."+field, "fails for %s: %v", example, err)
			return "", false
		}
		if !there && field != "counterparty" {
			c.bad("spending."+field, "is nothing for %s", example)
		}
		return value, there
	}
	if amount, there := text("amount", s.amount); there && !exactAmount.MatchString(amount) {
		c.bad("spending.amount", "is %q for %s: want an amount that is not negative, as a whole number or the text of a decimal, such as 12.34", amount, example)
	}
	if currency, there := text("currency", s.currency); there && !currencyCode.MatchString(currency) {
		c.bad("spending.currency", "is %q for %s: want three capital letters, such as EUR; upperAscii() makes them", currency, example)
	}
	text("counterparty", s.counterparty)
}

// intents wants every intent resolved by the arguments of an example.
func (c *compiler) intents(example string, spec actions.Spec, args actions.Arguments) {
	for i, intent := range spec.Intents {
		if _, err := intent.Resolve(args); err != nil {
			c.bad(element("intents", i), "is not resolved by %s, and such a request would be refused: %v", example, err)
		}
	}
}

// addGoals puts what budgets, intents, reviews and guards need into a Spec.
func addGoals(spec *actions.Spec, p *definition.Provider, a *definition.Action) {
	if s := a.Spending; s != nil {
		spec.Spending = actions.Spending{Amount: s.Amount, Currency: s.Currency, Counterparty: s.Counterparty}
	}
	for _, intent := range a.Intents {
		out := actions.Intent{Name: intent.Name, Quiet: intent.Quiet.Std()}
		for _, part := range intent.Parts {
			out.Parts = append(out.Parts, actions.KeyPart{Name: part.Name, From: part.From})
		}
		spec.Intents = append(spec.Intents, out)
	}
	if s := a.Sensitive; s != nil {
		spec.SensitiveArgs, spec.SensitiveReceipt = s.Arguments, s.Receipt
	}
	if p.OperationToken != nil {
		spec.TokenAudience = p.OperationToken.Audience
	}
	spec.Contract.Protection = ProtectionOf(p)
}

// ProtectionOf is how a provider in trouble is protected.
func ProtectionOf(p *definition.Provider) actions.Protection {
	var out actions.Protection
	if b := p.Breaker; b != nil {
		out.Failures, out.OpenFor = b.Failures, b.OpenFor.Std()
	}
	if r := p.RetryBudget; r != nil {
		out.RetryShare, out.RetryFloor = r.Percent, r.Floor
	}
	return out
}
