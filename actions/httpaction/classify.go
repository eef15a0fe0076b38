package httpaction

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

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
	// Failure does the same where code and message are not in the body alone. It
	// sees complete answers only. At most one of the two is set.
	Failure func(Exchange) (code, message string)
	// RetryAfter reads how long the provider asks to wait, and reports whether it
	// says so; default the Retry-After header. No wait is longer than
	// MaxRetryAfter.
	RetryAfter func(Exchange) (time.Duration, bool)
	// Wait is how long to wait after RateLimited where neither the answer nor a
	// rule says so; zero leaves it to our backoff.
	Wait time.Duration
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
	// Wait is how long to wait where the answer does not say so itself.
	Wait time.Duration
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
	if rules.Error != nil && rules.Failure != nil {
		errs = append(errs, errors.New("both Error and Failure are set"))
	}
	if rules.Wait < 0 {
		errs = append(errs, errors.New("the wait is negative"))
	}
	for i, r := range rules.Overrides {
		fault := func(text string) { errs = append(errs, fmt.Errorf("override %d: %s", i, text)) }
		if len(r.Statuses) == 0 && len(r.Codes) == 0 && r.When == nil {
			fault("no predicate")
		}
		if len(r.Codes) > 0 && rules.Error == nil && rules.Failure == nil {
			fault("codes without an error function")
		}
		if r.Kind < actions.Ambiguous || r.Kind > actions.RateLimited {
			fault("no such kind")
		}
		if r.Wait < 0 {
			fault("the wait is negative")
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
	if read := rules.Error; read != nil {
		rules.Failure = func(x Exchange) (string, string) { return read(x.Body) }
	}
	if rules.RetryAfter == nil {
		rules.RetryAfter = retryAfter
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
		o := failed(actions.NotApplied, x, "not_sent", "The provider could not be reached; nothing was sent.")
		o.Unreached = x.Phase == PhaseDial || x.Phase == PhaseTLS // and no want of credentials of ours
		return o
	case x.Status == 0:
		return failed(actions.Ambiguous, x, "no_answer", "The request may have been sent; no answer came.")
	}
	code, message := c.providerError(x)
	return c.outcome(c.judge(x, code), x, code, message)
}

// judgement is what a rule or a row of the table makes of an answer.
type judgement struct {
	kind        actions.Kind
	correctable bool
	wait        time.Duration
}

// judge finds the first override, else the row of the table.
func (c *Classifier) judge(x Exchange, code string) judgement {
	for _, r := range c.rules.Overrides {
		if r.matches(x, code) {
			return judgement{r.Kind, r.Correctable, r.Wait}
		}
	}
	row := lookUp(x.Status)
	if row.need == needOrigin && !(x.Complete && c.rules.Origin(x)) {
		return judgement{}
	}
	return judgement{kind: row.kind, correctable: row.correctable}
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
	if c.rules.Failure == nil || !x.Complete {
		return "", ""
	}
	return c.rules.Failure(x)
}

// outcome fills in what each kind carries.
func (c *Classifier) outcome(j judgement, x Exchange, code, message string) actions.Outcome {
	switch j.kind {
	case actions.Applied, actions.AppliedNoReceipt:
		receipt, err := c.rules.Receipt(x)
		if j.kind == actions.Applied && err == nil && x.Complete {
			return actions.Outcome{Kind: actions.Applied, Receipt: receipt}
		}
		o := failed(actions.AppliedNoReceipt, x, "receipt_missing", "The provider reported success without a usable receipt.")
		o.Receipt.Reference = receipt.Reference
		return o
	case actions.Accepted:
		receipt, _ := c.rules.Receipt(x) // a promise seldom has more than the reference
		o := failed(j.kind, x, "accepted", "The provider accepted the request and will finish it later.")
		o.Receipt.Reference = receipt.Reference
		o.RetryAfter = c.wait(j, x)
		return o
	default: // no receipt in it
	}
	o := failed(j.kind, x, codeOf(j.kind, x, code), messageOf(j.kind, x, message))
	o.Failure.Correctable = j.correctable && j.kind == actions.Rejected
	if j.kind == actions.RateLimited || j.kind == actions.NotApplied || j.kind == actions.InProgress {
		o.RetryAfter = c.wait(j, x)
	}
	return o
}

// wait is what the answer says, else the rule, else the provider's usual.
func (c *Classifier) wait(j judgement, x Exchange) time.Duration {
	wait, said := c.rules.RetryAfter(x)
	if !said {
		wait = j.wait
		if wait == 0 && j.kind == actions.RateLimited {
			wait = c.rules.Wait
		}
	}
	return min(max(wait, 0), MaxRetryAfter)
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
