package declared

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
)

// receipt is a compiled receipt. A nil one is none.
type receipt struct {
	reference *expr.Expression
	// top is the name where the reference is a member of the body: it can be read
	// from a body that is cut behind it.
	top string
	// ofCall: the reference is made of the call alone. It would be there whatever
	// the answer was.
	ofCall bool
	fields map[string]*expr.Expression
}

// ofAnswer are the variables of which an answer is.
var ofAnswer = regexp.MustCompile(`\b(body|header|text|item|event)\b`)

var topMember = regexp.MustCompile(`^body\.([A-Za-z_][A-Za-z0-9_]*)$`)

// receipt compiles a receipt whose expressions see env.
func (c *compiler) receipt(env *expr.Env, field string, r *definition.Receipt) *receipt {
	if r == nil {
		return nil
	}
	if r.Reference == "" {
		c.bad(field+".reference", "is missing: an effect without the provider's id cannot be found again")
	}
	out := &receipt{reference: c.expression(env, field+".reference", r.Reference), fields: map[string]*expr.Expression{}}
	out.ofCall = !ofAnswer.MatchString(r.Reference)
	if m := topMember.FindStringSubmatch(r.Reference); m != nil {
		out.top = m[1]
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		at := member(field+".fields", name)
		if r.Fields[name] == "" {
			c.bad(at, "is empty")
		}
		if x := c.expression(env, at, r.Fields[name]); x != nil {
			out.fields[name] = x
		}
	}
	return out
}

var (
	errNoReceipt = errors.New("there is no receipt")
	errNotHeard  = errors.New("the reference is made of the call, and nothing shows that the provider answered it")
)

// of reads the receipt of an answer. From one that is cut or lacks a field it
// takes the reference where it can, beside the error. Where the reference is made
// of the call, an answer counts that has no body by its status, or that the
// provider gave itself: a page of a network's gateway is a 200 too.
func (r *receipt) of(a *answer, origin *expr.Expression) (actions.Receipt, error) {
	if r == nil {
		return actions.Receipt{}, errNoReceipt
	}
	if r.ofCall && a.x.Status != http.StatusNoContent && !isOwn(a, origin) {
		return actions.Receipt{}, errNotHeard
	}
	out, err := r.read(a.vars)
	if out.Reference == "" && r.top != "" && !a.isJSON {
		// The error does not matter: it says that the body is cut.
		cut, _ := httpaction.ReceiptOf(a.x.Body, r.top)
		out.Reference = cut.Reference
	}
	return out, err
}

// read evaluates the receipt. Its JSON is sorted by name, so that the same
// answer gives the same bytes. A field that is an empty optional is left out;
// one that fails makes the receipt incomplete.
func (r *receipt) read(vars expr.Vars) (actions.Receipt, error) {
	var out actions.Receipt
	value, err := r.reference.Eval(vars)
	if err == nil {
		out.Reference, err = referenceOf(value)
	}
	if err != nil {
		return out, fmt.Errorf("reference: %w", err)
	}
	object := make(map[string]any, len(r.fields))
	for name, field := range r.fields {
		value, err := field.Eval(vars)
		if err != nil {
			return out, fmt.Errorf("field %s: %w", name, err)
		}
		if value != expr.Omitted {
			object[httpaction.CleanText(name)] = clean(value)
		}
	}
	out.JSON, err = expr.Encode(object)
	return out, err
}

// maxReferenceBytes bounds a provider's id.
const maxReferenceBytes = 255

// referenceOf reads a provider's id: text, or a whole number.
func referenceOf(value any) (string, error) {
	switch v := value.(type) {
	case string:
		text := httpaction.CleanText(v)
		if text == "" || len(text) > maxReferenceBytes || strings.ContainsFunc(text, unicode.IsControl) {
			return "", errors.New("is empty, too long or no plain text")
		}
		return text, nil
	case json.Number:
		digits := strings.TrimPrefix(v.String(), "-")
		if digits == "" || len(digits) > maxReferenceBytes || strings.Trim(digits, "0123456789") != "" {
			return "", errors.New("is a number with a fraction")
		}
		return v.String(), nil
	default:
		return "", errors.New("is neither text nor a whole number")
	}
}

// clean replaces what databases refuse in every text of a value.
func clean(value any) any {
	switch v := value.(type) {
	case string:
		return httpaction.CleanText(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = clean(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[httpaction.CleanText(name)] = clean(item)
		}
		return out
	default:
		return v
	}
}
