package actions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// report turns the validator's tree of errors into violations. It words them
// itself: the validator's own texts repeat values.
type report struct {
	root       any
	violations []Violation
}

// refusal returns what was reported, sorted, since the validator visits
// members in no fixed order.
func (r *report) refusal() error {
	slices.SortFunc(r.violations, func(a, b Violation) int {
		return cmp.Or(
			strings.Compare(a.Field, b.Field),
			strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Message, b.Message),
		)
	})
	return refuse(slices.Compact(r.violations)...)
}

// add reports the leaves of e. The prefix says inside which of several allowed
// forms a leaf was found.
func (r *report) add(e *jsonschema.ValidationError, prefix string) {
	field := pathIn(r.root, e.InstanceLocation)
	say := func(field, reason, format string, args ...any) {
		r.violations = append(r.violations, Violation{
			Field: field, Reason: reason, Message: clip(prefix+fmt.Sprintf(format, args...), maxMessage),
		})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		r.addAll(e.Causes, prefix)
	case *kind.AnyOf:
		r.addForms(field, e.Causes, prefix)
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			say(field, ReasonAmbiguous, "fits the forms %d and %d, and only one may fit", k.Subschemas[0]+1, k.Subschemas[1]+1)
		} else {
			r.addForms(field, e.Causes, prefix)
		}

	case *kind.Required:
		for _, missing := range k.Missing {
			say(joinName(field, missing), ReasonRequired, "is required")
		}
	case *kind.DependentRequired:
		for _, missing := range k.Missing {
			say(joinName(field, missing), ReasonRequired, "is required together with %s", joinName(field, k.Prop))
		}
	case *kind.AdditionalProperties:
		for _, extra := range k.Properties {
			say(joinName(field, extra), ReasonUnknownField, "is not known")
		}
	case *kind.PropertyNames:
		say(joinName(field, k.Property), ReasonUnknownField, "has a name that is not allowed")
	case *kind.FalseSchema:
		say(field, ReasonNotAllowed, "is not allowed here")
	case *kind.Not:
		say(field, ReasonNotAllowed, "has a form that is not allowed")

	case *kind.Type:
		say(field, ReasonType, "must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Const:
		say(field, ReasonEnum, "must be %s", wanted(k.Want))
	case *kind.Enum:
		say(field, ReasonEnum, "must be one of %s", wanted(k.Want...))
	case *kind.Format:
		say(field, ReasonFormat, "must be a valid %s", k.Want)
	case *kind.Pattern:
		say(field, ReasonPattern, "must match the pattern %s", k.Want)
	case *kind.MinLength:
		say(field, ReasonLength, "must have at least %s, has %d", count(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		say(field, ReasonLength, "must have at most %s, has %d", count(k.Want, "character"), k.Got)

	case *kind.Minimum:
		say(field, ReasonRange, "must be at least %s", decimalText(k.Want))
	case *kind.Maximum:
		say(field, ReasonRange, "must be at most %s", decimalText(k.Want))
	case *kind.ExclusiveMinimum:
		say(field, ReasonRange, "must be more than %s", decimalText(k.Want))
	case *kind.ExclusiveMaximum:
		say(field, ReasonRange, "must be less than %s", decimalText(k.Want))
	case *kind.MultipleOf:
		say(field, ReasonMultipleOf, "must be a multiple of %s", decimalText(k.Want))

	case *kind.MinItems:
		say(field, ReasonItems, "must have at least %s, has %d", count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		say(field, ReasonItems, "must have at most %s, has %d", count(k.Want, "item"), k.Got)
	case *kind.UniqueItems:
		say(field, ReasonItems, "must not hold the same item twice: %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		say(field, ReasonItems, "holds too few or too many items of the wanted form")
	case *kind.MinProperties:
		say(field, ReasonProperties, "must have at least %s, has %d", count(k.Want, "member"), k.Got)
	case *kind.MaxProperties:
		say(field, ReasonProperties, "must have at most %s, has %d", count(k.Want, "member"), k.Got)

	default:
		say(field, ReasonSchema, "does not meet the schema")
	}
}

func (r *report) addAll(errs []*jsonschema.ValidationError, prefix string) {
	for _, e := range errs {
		r.add(e, prefix)
	}
}

// addForms reports that none of several forms fits, and why each does not.
func (r *report) addForms(field string, forms []*jsonschema.ValidationError, prefix string) {
	r.violations = append(r.violations, Violation{
		Field: field, Reason: ReasonNoForm,
		Message: prefix + fmt.Sprintf("must fit one of %s", count(len(forms), "form")),
	})
	for i, form := range forms {
		r.add(form, fmt.Sprintf("%sform %d: ", prefix, i+1))
	}
}

// Bounds of what a message repeats of a schema, in bytes.
const (
	maxMessage = 256
	maxWanted  = 64
)

// wanted lists values of the schema as JSON.
func wanted(values ...any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("another value")
		}
		texts[i] = clip(string(text), maxWanted)
	}
	return strings.Join(texts, ", ")
}

// decimalText writes a bound of the schema with all its digits.
func decimalText(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return clip(r.FloatString(digits), maxWanted)
}

func count(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
