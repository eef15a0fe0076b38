package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxIntentLength bounds the text of an intent, in bytes.
const MaxIntentLength = 400

// usualIntent is how long most are.
const usualIntent = 96

// CallerIntent is the name of the intents that callers compose themselves
// (intent_id). No action type and no policy has one of that name: a caller could
// hold its goals.
const CallerIntent = "caller"

// Intent is a goal above the key. Action types that name the same intent with
// the same part names share it.
type Intent struct {
	Name  string    // "order_refund"
	Parts []KeyPart // From is "arguments.<path>"; a part that is missing refuses the request
	// Quiet is how long after a success another one has to be said to be meant.
	Quiet time.Duration
}

// IntentPart is one resolved part of an intent.
type IntentPart struct {
	Name, Value string
}

// ComposeIntent returns the text of an intent: order_refund|order:42, its parts
// sorted by name, so that two action types that list them in different orders
// still meet. Names and values are escaped as those of keys are: different
// identities never compose the same text, and one that is longer than
// [MaxIntentLength] becomes order_refund|sha256:<hex of its SHA-256>. A value
// counts by its text: the number 4 and the text "4" are one identity.
func ComposeIntent(name string, parts []IntentPart) string {
	var text strings.Builder
	text.Grow(usualIntent)
	appendEscaped(&text, name)
	head := text.String() + string(partSeparator)
	sorted := slices.Clone(parts)
	slices.SortStableFunc(sorted, func(a, b IntentPart) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range sorted {
		text.WriteByte(partSeparator)
		appendEscaped(&text, p.Name)
		text.WriteByte(nameSeparator)
		appendEscaped(&text, p.Value)
	}
	// One that looks like a hashed one is hashed too, so that none can pose as one.
	if text.Len() <= MaxIntentLength && !strings.HasPrefix(text.String(), head+hashedPrefix) {
		return text.String()
	}
	sum := sha256.Sum256([]byte(text.String()))
	hashed := hashedPrefix + hex.EncodeToString(sum[:])
	if len(head)+len(hashed) > MaxIntentLength { // a name that no Spec has
		return hashed
	}
	return head + hashed
}

// Resolve returns the text of the intent that arguments belong to. The error is
// an *ArgumentsError that names every part without a value: a request whose goal
// is not known cannot be told from a second one.
func (i Intent) Resolve(args Arguments) (string, error) {
	parts := make([]IntentPart, 0, len(i.Parts))
	var missing []Violation
	for _, part := range i.Parts {
		path := strings.TrimPrefix(part.From, fromArguments)
		value, _ := args.Text(path)
		if value == "" {
			missing = append(missing, Violation{
				Field:  pathIn(args.value, strings.Split(path, ".")),
				Reason: ReasonIntentPartMissing,
				Message: fmt.Sprintf("is missing, empty or not a single value, and the intent %s is told apart by it: send it",
					i.Name),
			})
			continue
		}
		parts = append(parts, IntentPart{Name: part.Name, Value: value})
	}
	if len(missing) > 0 {
		return "", refuse(missing...)
	}
	return ComposeIntent(i.Name, parts), nil
}
