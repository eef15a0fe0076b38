package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxKeyLength bounds a key, in characters.
const MaxKeyLength = 255

// usualKey is how long most composed ones are.
const usualKey = 96

// KeySource says where a key came from.
type KeySource int

const (
	// KeyFromNowhere is the zero value: there is no key.
	KeyFromNowhere KeySource = iota
	// KeyFromCaller is the caller's own key, as it came.
	KeyFromCaller
	// KeyFromRecipe is composed by the action type's recipe.
	KeyFromRecipe
	// KeyFromRunStep is composed of tenant, action type, run and step.
	KeyFromRunStep
)

func (s KeySource) String() string { return name(s, "none", "caller", "recipe", "run_step") }

// KeyInput is what a key can be composed from.
type KeyInput struct {
	Tenant    string // from the caller's credentials
	CallerKey string // the caller's own key; empty for none
	Run, Step string // of the planner's run; empty where unknown
	// DistinctFrom is the id of an operation that this one is meant to come in
	// addition to; empty for none.
	DistinctFrom string
	Arguments    Arguments
}

// Key is the idempotency key of an action, unique within its tenant.
type Key struct {
	// Text is 1 to MaxKeyLength visible ASCII characters, compared byte by byte.
	Text   string
	Source KeySource
}

// Marks in composed keys. Escaping keeps them out of names and values.
const (
	partSeparator = '|'
	nameSeparator = ':'
	escapeMark    = '%'
	hashedPrefix  = "sha256:"
	distinctPart  = "distinct"
)

// ComposeKey finds the key of an action. The sources, in order: the caller's
// key; the recipe of the action type; run and step. It never uses the time,
// chance or the arguments as a whole. The error is an *ArgumentsError; it says
// what to send.
//
// A caller's key is taken as it came: it is the caller's word, and
// DistinctFrom does not alter it. It may well look like a composed one. That
// does no harm: it names the operation that it would name, so the same
// arguments are a replay and others are refused.
//
// A composed key reads tenant:acme|invoice:inv_123|revision:4 (recipe, parts
// in its order) or tenant:acme|action:a.b|run:r1|step:s1 (run and step; the
// action type is in it because one step may use several tools). DistinctFrom
// adds distinct:<id> at the end. Values are escaped, so that different values
// never compose the same key. A value counts by its text: the number 4 and the
// text "4" are one identity, and differing arguments under it are refused.
//
// A composed key longer than MaxKeyLength, and every composed one where
// [Spec.HashKey] is set, becomes sha256:<hex of its SHA-256>. The hash hides
// the parts from a reader of the key; it does not hide them from somebody who
// can guess them.
func ComposeKey(spec Spec, in KeyInput) (Key, error) {
	if in.CallerKey != "" {
		if v, ok := checkCallerKey(in.CallerKey); !ok {
			return Key{}, refuse(v)
		}
		return Key{Text: in.CallerKey, Source: KeyFromCaller}, nil
	}
	recipe, source := spec.Key, KeyFromRecipe
	if len(recipe) == 0 {
		if in.Run == "" || in.Step == "" {
			return Key{}, refuse(Violation{
				Field:  "idempotency_key",
				Reason: ReasonKeyRequired,
				Message: "nothing names this action: send an idempotency_key that stays the same " +
					"when you try again, or both run_id and step_id",
			})
		}
		recipe, source = runStepRecipe(), KeyFromRunStep
	}

	var text strings.Builder
	text.Grow(usualKey)
	var missing []Violation
	for _, part := range recipe {
		value := in.source(spec, part.From)
		if value == "" {
			missing = append(missing, in.missing(part))
			continue
		}
		appendPart(&text, part.Name, value)
	}
	if len(missing) > 0 {
		return Key{}, refuse(missing...)
	}
	if in.DistinctFrom != "" {
		appendPart(&text, distinctPart, in.DistinctFrom)
	}
	return Key{Text: finish(text.String(), spec.HashKey), Source: source}, nil
}

// KeyNeedsArguments reports whether the key of an action comes from its
// arguments: there is no caller's key, and the recipe names some.
func (s Spec) KeyNeedsArguments(in KeyInput) bool {
	return in.CallerKey == "" && slices.ContainsFunc(s.Key, func(part KeyPart) bool {
		return strings.HasPrefix(part.From, fromArguments)
	})
}

func runStepRecipe() []KeyPart {
	return []KeyPart{
		{Name: "tenant", From: fromTenant}, {Name: "action", From: fromAction},
		{Name: "run", From: fromRun}, {Name: "step", From: fromStep},
	}
}

// CheckKey reports what cannot be an idempotency key. The error is an
// *ArgumentsError.
func CheckKey(key string) error {
	if key == "" {
		return refuse(Violation{Field: "idempotency_key", Reason: ReasonKeyInvalid, Message: "must not be empty"})
	}
	if v, ok := checkCallerKey(key); !ok {
		return refuse(v)
	}
	return nil
}

// checkCallerKey returns what is wrong with a caller's key, without repeating it.
func checkCallerKey(key string) (Violation, bool) {
	v := Violation{Field: "idempotency_key", Reason: ReasonKeyInvalid}
	if len(key) > MaxKeyLength {
		v.Message = fmt.Sprintf("must not be longer than %d characters", MaxKeyLength)
		return v, false
	}
	for i := range len(key) {
		if !visible(key[i]) {
			v.Message = fmt.Sprintf("must be visible ASCII characters (0x21 to 0x7e); byte %d is not", i+1)
			return v, false
		}
	}
	return v, true
}

func visible(c byte) bool { return 0x21 <= c && c <= 0x7e }

// appendPart appends name:value. The name needs no escaping (see partPattern).
func appendPart(b *strings.Builder, name, value string) {
	if b.Len() > 0 {
		b.WriteByte(partSeparator)
	}
	b.WriteString(name)
	b.WriteByte(nameSeparator)
	appendEscaped(b, value)
}

// appendEscaped appends a text without the marks of composed keys.
func appendEscaped(b *strings.Builder, text string) {
	const hexDigits = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case c == partSeparator, c == nameSeparator, c == escapeMark, !visible(c):
			b.Write([]byte{escapeMark, hexDigits[c>>4], hexDigits[c&0xf]})
		default:
			b.WriteByte(c)
		}
	}
}

// finish hashes a composed key where that is asked for or needed. A text that
// begins like a hashed key is hashed too, so that none can pose as one.
func finish(text string, hash bool) string {
	if !hash && len(text) <= MaxKeyLength && !strings.HasPrefix(text, hashedPrefix) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hashedPrefix + hex.EncodeToString(sum[:])
}

// Sources of a key part.
const (
	fromTenant    = "tenant"
	fromRun       = "run"
	fromStep      = "step"
	fromAction    = "action"
	fromArguments = "arguments." // followed by a dotted path
)

// source returns the value of a key part; empty means that there is none.
func (in KeyInput) source(spec Spec, from string) string {
	switch from {
	case fromTenant:
		return in.Tenant
	case fromRun:
		return in.Run
	case fromStep:
		return in.Step
	case fromAction:
		return spec.Type
	}
	if path, ok := strings.CutPrefix(from, fromArguments); ok {
		value, _ := in.Arguments.Text(path)
		return value
	}
	return ""
}

// missing says that a key part has no value, and where it would come from.
func (in KeyInput) missing(part KeyPart) Violation {
	field, what := part.From, "is missing or empty"
	switch part.From {
	case fromRun, fromStep:
		field += "_id"
	}
	if path, ok := strings.CutPrefix(part.From, fromArguments); ok {
		field = pathIn(in.Arguments.value, strings.Split(path, "."))
		what = "is missing, empty or not a single value"
	}
	return Violation{
		Field:  field,
		Reason: ReasonKeyPartMissing,
		Message: fmt.Sprintf("%s, and the key part %s comes from it: send it, or an idempotency_key",
			what, part.Name),
	}
}

var errKeySource = errors.New(`want "tenant", "run", "step", "action" or "arguments.<path>", ` +
	"the path being names of letters, digits, _ and - with dots between")

// checkKeySource reports whether a key part can come from there.
func checkKeySource(from string) error {
	switch from {
	case fromTenant, fromRun, fromStep, fromAction:
		return nil
	}
	path, ok := strings.CutPrefix(from, fromArguments)
	if !ok {
		return fmt.Errorf("source %q: %w", from, errKeySource)
	}
	if checkPath(path) != nil {
		return fmt.Errorf("source %q: %w", from, errKeySource)
	}
	return nil
}
