package policy

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/ledger"
)

// Reasons of violations that this package gives. They are stable.
const (
	ReasonAmountInvalid       = "AMOUNT_INVALID"       // no exact amount that is not negative
	ReasonCurrencyInvalid     = "CURRENCY_INVALID"     // no ISO 4217 code
	ReasonCounterpartyInvalid = "COUNTERPARTY_INVALID" // missing where it is needed, or no short text
)

const fieldArguments = "arguments"

// maxCounterparty bounds a counterparty, in bytes.
const maxCounterparty = 255

// isoCurrency is in either case: only ASCII letters have one that is theirs alone.
var isoCurrency = regexp.MustCompile(`^[A-Za-z]{3}$`)

// facts are what a request comes to, before anything is decided about it.
type facts struct {
	amount, currency, counterparty string
	spends                         bool // the action type says an amount
	fenced                         []ledger.Fence
	charges                        []ledger.Charge
	violations                     []actions.Violation
	refusedBy, reason              string // of budgets that cannot be counted

	request *Request
	values  map[string]any // of the arguments, when they were wanted
}

// factsOf finds out what a request spends, holds and lacks.
func (p *Policy) factsOf(r *Request) *facts {
	f := &facts{request: r}
	f.spending(r.Action)
	f.fenced = f.fences(p, r)
	f.charge(p, r)
	return f
}

// args are the arguments as expressions see them.
func (f *facts) args() map[string]any {
	if f.values == nil {
		f.values = f.request.Args.Value()
	}
	return f.values
}

// violate adds a violation. What is said about a field already is not said again
// for another budget or intent.
func (f *facts) violate(field, reason, message string) {
	for _, v := range f.violations {
		if v.Field == field && v.Reason == reason {
			return
		}
	}
	f.violations = append(f.violations, actions.Violation{Field: field, Reason: reason, Message: message})
}

// spending evaluates what the action type says about money.
func (f *facts) spending(a *Action) {
	if a.amount != nil {
		f.spends = true
		vars := expr.Vars{"args": f.args()}
		value, err := a.amount.Eval(vars)
		problem := "is missing or no exact number, and the amount comes from it"
		if err == nil && value != nil && value != expr.Omitted {
			f.amount, problem = amountOf(value)
		}
		if problem != "" {
			f.amount = ""
			f.violate(fieldOf(a.amount), ReasonAmountInvalid, problem)
		}
		currency, ok, err := a.currency.Text(vars)
		if err != nil || !ok || !isoCurrency.MatchString(currency) {
			f.violate(fieldOf(a.currency), ReasonCurrencyInvalid, "is no currency, and that of the amount comes from it: want three letters (ISO 4217), such as EUR")
		} else {
			f.currency = strings.Clone(strings.ToUpper(currency)) // not a part of the arguments, which it would keep
		}
	}
	if a.counterparty == nil {
		return
	}
	text, ok, err := a.counterparty.Text(expr.Vars{"args": f.args()})
	switch {
	case err != nil:
		// A rule that looks for somebody must not take this for nobody.
		f.violate(fieldOf(a.counterparty), ReasonCounterpartyInvalid, "is missing or no text, and the counterparty comes from it")
	case !ok: // the action type leaves it open; a fault where a budget needs it
	case len(text) > maxCounterparty || strings.ContainsFunc(text, unicode.IsControl):
		f.violate(fieldOf(a.counterparty), ReasonCounterpartyInvalid, "is no name of at most 255 bytes without control characters, and the counterparty comes from it")
	default:
		f.counterparty = strings.Clone(text)
	}
}

// charge finds the parts of budgets that the request takes.
func (f *facts) charge(p *Policy, r *Request) {
	spec := &r.Action.Spec
	covered, bounded := false, false
	for i := range p.budgets {
		b := &p.budgets[i]
		if b.of == ofSpend && b.types.has(spec.Type) && f.spends {
			bounded = true
			covered = covered || b.currency == f.currency
		}
		if !b.counts(spec.Type, f) {
			continue
		}
		charge, missing := b.charge(r, f)
		switch missing {
		case "":
			f.charges = append(f.charges, charge)
		case perRun:
			f.violate("run.run_id", actions.ReasonRequired, "is missing, and the budget "+b.id+" is counted by run: send it")
		case perCounterparty:
			if r.Action.counterparty != nil {
				f.violate(fieldOf(r.Action.counterparty), ReasonCounterpartyInvalid, "is missing, and the budget "+b.id+" is counted by the counterparty that comes from it: send it")
				continue
			}
			f.refusedBy, f.reason = ruleCounterparty, "the budget "+b.id+" is counted by counterparty, and the action type "+spec.Type+" names none"
		default:
			f.refusedBy, f.reason = b.id, "the budget is counted by "+missing+", and the request has none"
		}
	}
	if bounded && !covered && !p.currencies && f.currency != "" {
		f.refusedBy, f.reason = ruleCurrency, "the amount is in "+f.currency+", and no budget for "+spec.Type+" is in that currency"
	}
}

// fieldOf is the argument that an expression reads, where it is one alone.
func fieldOf(x *expr.Expression) string {
	field := ""
	for _, use := range x.Uses() {
		if use.Variable != "args" || len(use.Path) == 0 {
			continue
		}
		path := ""
		for _, step := range use.Path {
			switch {
			case isIndex(step):
				path += "[" + step + "]"
			case plainStep.MatchString(step):
				path += "." + step
			default:
				path += "[" + strconv.QuoteToASCII(step) + "]"
			}
		}
		if field != "" && field != path {
			return fieldArguments
		}
		field = path
	}
	return fieldArguments + field
}

var plainStep = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func isIndex(step string) bool {
	n, err := strconv.Atoi(step)
	return err == nil && n >= 0 && strconv.Itoa(n) == step
}
