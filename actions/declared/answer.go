package declared

import (
	"maps"
	"strings"

	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// answer is an exchange with what expressions see of it. It belongs to one
// goroutine.
type answer struct {
	x    httpaction.Exchange
	vars expr.Vars // those of the call, and status, header, body, text
	// isJSON: the body is whole and one JSON value, whatever it is declared as.
	isJSON bool

	errors        *errorReader
	read          bool
	code, message string
}

// newAnswer reads an exchange. vars are those of the call; they are not changed.
func newAnswer(x httpaction.Exchange, vars expr.Vars, errors *errorReader) *answer {
	a := &answer{x: x, vars: maps.Clone(vars), errors: errors}
	header := make(map[string]any, len(x.Header))
	for name, values := range x.Header {
		if len(values) > 0 {
			header[strings.ToLower(name)] = values[0]
		}
	}
	a.vars["status"], a.vars["header"], a.vars["body"] = x.Status, header, nil
	a.vars["text"] = httpaction.CleanText(string(x.Body))
	if x.Complete {
		if body, err := httpaction.ParseJSON(x.Body); err == nil {
			a.vars["body"], a.isJSON = body, true
		}
	}
	return a
}

// holds reports whether an expression is true; one that fails is not.
func (a *answer) holds(x *expr.Expression) bool {
	ok, err := x.Bool(a.vars)
	return err == nil && ok
}

// failure returns the provider's error code and message; empty where the answer
// has none that can be read.
func (a *answer) failure() (code, message string) {
	if !a.read {
		a.read = true
		a.code, a.message = a.errors.read(a.vars)
	}
	return a.code, a.message
}

// errorReader reads code and message of an error answer. A nil one reads none.
type errorReader struct{ code, message *expr.Expression }

func (e *errorReader) read(vars expr.Vars) (code, message string) {
	if e == nil {
		return "", ""
	}
	text := func(x *expr.Expression) string {
		if x == nil {
			return ""
		}
		value, _, err := x.Text(vars)
		if err != nil {
			return ""
		}
		return value
	}
	return text(e.code), text(e.message)
}

// parsed returns the answer of an exchange that is classified. Without one,
// nothing is known and no expression holds.
func parsed(x httpaction.Exchange) *answer {
	if a, ok := x.Parsed.(*answer); ok {
		return a
	}
	return newAnswer(x, expr.Vars{}, nil)
}
