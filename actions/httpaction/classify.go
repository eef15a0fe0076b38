package httpaction

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/onceward/onceward/actions"
)

// Rules say how one kind of request of one provider answers, where that goes
// beyond HTTP itself. The functions must be pure and safe for concurrent use.
type Rules struct {
	// Receipt reads the receipt from a success; required. It is also asked about
	// a cut answer, whose Reference alone is used. See JSONReceipt.
	Receipt func(Exchange) (actions.Receipt, error)
	// Origin reports whether the provider itself gave this answer; default
	// JSONOrigin.
	Origin func(Exchange) bool
	// Error reads the provider's error code and message from a complete body;
	// nil reads none. See JSONError. Both are made safe before use.
	Error func(body []byte) (code, message string)
	// Overrides come before the standard table; the first that matches decides.
	Overrides []Rule
}

// Rule says what an answer of a provider means. All predicates that are set
// must hold, and at least one must be set. A rule sees only answers, never an
// exchange that has no status or was not sent.
type Rule struct {
	Statuses []int    // any of these
	Codes    []string // any of these error codes, exactly, as Rules.Error reads them
	When     func(Exchange) bool

	Kind        actions.Kind
	Correctable bool // for Rejected: other arguments could succeed
	// Because names the evidence: where the provider promises this. Rules that
	// claim that nothing was applied need it, and match complete answers only.
	Because string
}

// Classifier turns exchanges into outcomes. It is immutable and safe for
// concurrent use.
type Classifier struct{ rules Rules }

// NewClassifier checks the rules and reports every fault.
func NewClassifier(rules Rules) (*Classifier, error) {
	var errs []error
	if rules.Receipt == nil {
		errs = append(errs, errors.New("no receipt function"))
	}
	for i, r := range rules.Overrides {
		fault := func(text string) { errs = append(errs, fmt.Errorf("override %d: %s", i, text)) }
		if len(r.Statuses) == 0 && len(r.Codes) == 0 && r.When == nil {
			fault("no predicate")
		}
		if len(r.Codes) > 0 && rules.Error == nil {
			fault("codes without an error function")
		}
		if r.Kind < actions.Ambiguous || r.Kind > actions.RateLimited {
			fault("no such kind")
		}
		if claimsNothingApplied(r.Kind) && r.Because == "" {
			fault(fmt.Sprintf("%s needs evidence", r.Kind))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("http rules: %w", err)
	}
	if rules.Origin == nil {
		rules.Origin = JSONOrigin
	}
	rules.Overrides = slices.Clone(rules.Overrides)
	return &Classifier{rules: rules}, nil
}

// Classify says what an exchange proves. Whatever is not proved by a rule or by
// the standard table is ambiguous.
func (c *Classifier) Classify(x Exchange) actions.Outcome {
	switch {
	case x.Sent == NotSent && errors.Is(x.Err, ErrNotSendable):
		return failed(actions.Rejected, x, "not_sendable", "The request cannot be sent as it is.")
	case x.Sent == NotSent:
		return failed(actions.NotApplied, x, "not_sent", "The provider could not be reached; nothing was sent.")
	case x.Status == 0:
		return failed(actions.Ambiguous, x, "no_answer", "The request may have been sent; no answer came.")
	}
	code, message := c.providerError(x)
	kind, correctable := c.judge(x, code)
	return c.outcome(kind, correctable, x, code, message)
}

// judge finds the first override, else the row of the table.
func (c *Classifier) judge(x Exchange, code string) (kind actions.Kind, correctable bool) {
	for _, r := range c.rules.Overrides {
		if r.matches(x, code) {
			return r.Kind, r.Correctable
		}
	}
	row := lookUp(x.Status)
	if row.need == needOrigin && !(x.Complete && c.rules.Origin(x)) {
		return actions.Ambiguous, false
	}
	return row.kind, row.correctable
}

func (r Rule) matches(x Exchange, code string) bool {
	return (len(r.Statuses) == 0 || slices.Contains(r.Statuses, x.Status)) &&
		(len(r.Codes) == 0 || slices.Contains(r.Codes, code)) &&
		(x.Complete || !claimsNothingApplied(r.Kind)) &&
		(r.When == nil || r.When(x))
}

func claimsNothingApplied(k actions.Kind) bool {
	return k == actions.Rejected || k == actions.NotApplied || k == actions.RateLimited
}

func (c *Classifier) providerError(x Exchange) (code, message string) {
	if c.rules.Error == nil || !x.Complete {
		return "", ""
	}
	return c.rules.Error(x.Body)
}

// outcome fills in what each kind carries.
func (c *Classifier) outcome(kind actions.Kind, correctable bool, x Exchange, code, message string) actions.Outcome {
	switch kind {
	case actions.Applied, actions.AppliedNoReceipt:
		receipt, err := c.rules.Receipt(x)
		if kind == actions.Applied && err == nil && x.Complete {
			return actions.Outcome{Kind: actions.Applied, Receipt: receipt}
		}
		o := failed(actions.AppliedNoReceipt, x, "receipt_missing", "The provider reported success without a usable receipt.")
		o.Receipt.Reference = receipt.Reference
		return o
	case actions.Accepted:
		receipt, _ := c.rules.Receipt(x) // a promise seldom has more than the reference
		o := failed(kind, x, "accepted", "The provider accepted the request and will finish it later.")
		o.Receipt.Reference = receipt.Reference
		o.RetryAfter = retryAfter(x)
		return o
	default: // no receipt in it
	}
	o := failed(kind, x, codeOf(kind, x, code), messageOf(kind, x, message))
	o.Failure.Correctable = correctable && kind == actions.Rejected
	if kind == actions.RateLimited || kind == actions.NotApplied || kind == actions.InProgress {
		o.RetryAfter = retryAfter(x)
	}
	return o
}

func failed(kind actions.Kind, x Exchange, code, message string) actions.Outcome {
	return actions.Outcome{Kind: kind, Failure: actions.Failure{Code: code, Message: message, Evidence: oneLine(x.Evidence)}}
}

// codeOf returns the provider's own code for a refusal, which a planner may
// know, and our word for everything else.
func codeOf(kind actions.Kind, x Exchange, providers string) string {
	switch kind {
	case actions.Ambiguous:
		return "outcome_unknown"
	case actions.Rejected:
		if code := snakeCode(providers); code != "" {
			return code
		}
		return fmt.Sprintf("http_%d", x.Status)
	default:
		return kind.String()
	}
}

func messageOf(kind actions.Kind, x Exchange, providers string) string {
	if message := oneLine(providers); message != "" {
		return message
	}
	if kind == actions.Ambiguous {
		return fmt.Sprintf("The provider's answer (HTTP %d) does not prove what happened.", x.Status)
	}
	return fmt.Sprintf("The provider answered HTTP %d %s.", x.Status, http.StatusText(x.Status))
}
