package declared

import (
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// limits read from an answer when to come again.
type limits struct {
	signals []signal
	usual   time.Duration // after a rate limit that says no time; zero: our backoff
	max     time.Duration
}

// signal is one place with a time to wait: a header, or an expression.
type signal struct {
	header string
	value  *expr.Expression
	parse  func(text string, answered time.Time) (time.Duration, bool)
}

func (c *compiler) limits(field string, l *definition.Limits) limits {
	if l == nil {
		l = &definition.Limits{}
	}
	out := limits{usual: l.Default.Std(), max: httpaction.MaxRetryAfter}
	if l.Max > 0 {
		out.max = min(out.max, l.Max.Std())
	}
	for i, s := range l.Signals {
		at := element(field+".signals", i)
		parse, known := signalForm(s.As)
		if !known {
			c.bad(at+".as", "%q is no form of a time to wait", s.As)
		}
		if (s.Header == "") == (s.Value == "") {
			c.bad(at, "want either a header or a value")
		}
		out.signals = append(out.signals, signal{s.Header, c.expression(c.envs.answer, at+".value", s.Value), parse})
	}
	if len(out.signals) == 0 {
		out.signals = []signal{{header: "Retry-After", parse: httpaction.ParseRetryAfter}}
	}
	return out
}

// read returns the wait of the first signal that can be read.
func (l limits) read(a *answer) (time.Duration, bool) {
	for _, s := range l.signals {
		text := a.x.Header.Get(s.header)
		if s.value != nil {
			value, ok, err := s.value.Text(a.vars)
			if err != nil || !ok {
				continue
			}
			text = value
		}
		if wait, ok := s.parse(strings.Trim(text, " \t"), a.x.AnsweredAt()); ok {
			return min(wait, l.max), true
		}
	}
	return 0, false
}

func signalForm(as string) (func(string, time.Time) (time.Duration, bool), bool) {
	switch as {
	case "", "retry_after":
		return httpaction.ParseRetryAfter, true
	case "seconds":
		return units(time.Second), true
	case "milliseconds":
		return units(time.Millisecond), true
	case "epoch_seconds":
		return epoch(time.Second), true
	case "epoch_milliseconds":
		return epoch(time.Millisecond), true
	case "rfc3339":
		return func(text string, answered time.Time) (time.Duration, bool) {
			at, err := time.Parse(time.RFC3339, text)
			return until(at, answered, err == nil)
		}, true
	default:
		return nil, false
	}
}

// number reads digits, with at most one point among them; more says that a
// fraction was cut off. Signs, exponents, units and what cannot be a time are
// refused.
func number(text string) (n int64, more, ok bool) {
	whole, fraction, point := strings.Cut(text, ".")
	if whole == "" || point && fraction == "" || len(whole) > maxDigits || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	return n, strings.Trim(fraction, "0") != "", err == nil
}

// maxDigits are those of milliseconds in a far future: more is garbage, and
// cannot overflow.
const maxDigits = 15

// units reads a number of units. A fraction is rounded up.
func units(unit time.Duration) func(string, time.Time) (time.Duration, bool) {
	return func(text string, _ time.Time) (time.Duration, bool) {
		n, more, ok := number(text)
		if !ok || n > int64(maxAhead/unit) {
			return 0, false
		}
		if more {
			n++
		}
		return time.Duration(n) * unit, true
	}
}

// epoch reads a point in time since 1970. A fraction is rounded up.
func epoch(unit time.Duration) func(string, time.Time) (time.Duration, bool) {
	return func(text string, answered time.Time) (time.Duration, bool) {
		n, more, ok := number(text)
		if more {
			n++
		}
		at := time.Unix(n, 0)
		if unit == time.Millisecond {
			at = time.UnixMilli(n)
		}
		return until(at, answered, ok)
	}
}

// maxAhead is where a time stops to be a wait: it is garbage, or in another unit
// than was declared.
const maxAhead = 366 * 24 * time.Hour

// until is how long it is to a point in time; zero where it has passed.
func until(at, answered time.Time, ok bool) (time.Duration, bool) {
	if !ok || at.After(answered.Add(maxAhead)) {
		return 0, false
	}
	return max(at.Sub(answered), 0), true
}
