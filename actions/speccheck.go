package actions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a Spec.
const (
	// maxIntents bounds the intents of an action type: each is a row that the
	// claim's transaction takes.
	maxIntents = 8
	// maxAudienceLength bounds a token's audience, in characters.
	maxAudienceLength = 255
)

// MaxTokenLife is the longest that an operation token may live, and so an attempt
// that needs one.
const MaxTokenLife = time.Hour

// badFunc takes one contradiction.
type badFunc func(format string, args ...any)

func (s Spec) checkSpending(bad badFunc) {
	switch {
	case s.Spending.Amount != "" && s.Spending.Currency == "":
		bad("spending: an amount needs a currency: 100 of what?")
	case s.Spending.Amount == "" && s.Spending.Currency != "":
		bad("spending: a currency goes with an amount")
	}
}

func (s Spec) checkIntents(bad badFunc) {
	if len(s.Intents) > maxIntents {
		bad("there are %d intents, want at most %d", len(s.Intents), maxIntents)
	}
	names := map[string]bool{}
	for _, intent := range s.Intents {
		if !partPattern.MatchString(intent.Name) {
			bad("intent name %q: want lower-case letters, digits and _", intent.Name)
		}
		if intent.Name == CallerIntent {
			bad("intent name %q is taken: callers name theirs so", intent.Name)
		}
		if names[intent.Name] {
			bad("intent name %q is used twice", intent.Name)
		}
		names[intent.Name] = true
		if len(intent.Parts) == 0 {
			bad("intent %s has no parts: all operations of a tenant would be one goal", intent.Name)
		}
		if intent.Quiet < 0 {
			bad("intent %s: quiet is negative", intent.Name)
		}
		s.checkIntentParts(intent, bad)
	}
}

func (s Spec) checkIntentParts(intent Intent, bad badFunc) {
	names := map[string]bool{}
	for _, p := range intent.Parts {
		if !partPattern.MatchString(p.Name) {
			bad("intent %s: part name %q: want lower-case letters, digits and _", intent.Name, p.Name)
		}
		if names[p.Name] {
			bad("intent %s: part name %q is used twice", intent.Name, p.Name)
		}
		names[p.Name] = true
		path, ok := strings.CutPrefix(p.From, fromArguments)
		if !ok || checkKeySource(p.From) != nil {
			bad("intent %s: part %s: source %q: want arguments.<path>: a goal is told by what it is about, whoever asks for it in whichever run",
				intent.Name, p.Name, p.From)
			continue
		}
		if top, _, _ := strings.Cut(path, "."); slices.Contains(s.AdvisoryArgs, top) {
			bad("intent %s: part %s: argument %s is advisory, so that it cannot identify the goal", intent.Name, p.Name, top)
		}
		if s.Hides(path) {
			bad("intent %s: part %s: argument %s is sensitive, and the text of the intent would show it", intent.Name, p.Name, path)
		}
	}
}

// checkShared wants the same part names wherever an intent is named: with
// others, two action types would look as if they shared it and never meet.
func checkShared(all []*Action) error {
	type use struct{ action, parts string }
	first := map[string]use{}
	var errs []error
	for _, a := range all {
		for _, intent := range a.Spec.Intents {
			names := make([]string, len(intent.Parts))
			for i, p := range intent.Parts {
				names[i] = p.Name
			}
			slices.Sort(names)
			now := use{a.Spec.Type, strings.Join(names, ", ")}
			was, known := first[intent.Name]
			switch {
			case !known:
				first[intent.Name] = now
			case was.parts != now.parts:
				errs = append(errs, fmt.Errorf("action type %q: intent %s has the parts %s here and %s in %s: "+
					"action types share an intent under the same part names alone", now.action, intent.Name, now.parts, was.parts, was.action))
			}
		}
	}
	return errors.Join(errs...)
}

func (s Spec) checkSensitive(bad badFunc) {
	for _, path := range s.SensitiveArgs {
		if err := checkPath(path); err != nil {
			bad("sensitive argument %q: %w", path, err)
		}
	}
	for _, field := range s.SensitiveReceipt {
		if !plainName(field) {
			bad("sensitive receipt field %q: want the name of a top-level field: letters, digits, _ and -", field)
		}
	}
	for _, p := range s.Key {
		if path, ok := strings.CutPrefix(p.From, fromArguments); ok && !s.HashKey && s.Hides(path) {
			bad("key part %s: argument %s is sensitive, and the key would show it: store the key hashed", p.Name, path)
		}
	}
	if s.TokenAudience != "" && s.Timeout > MaxTokenLife {
		bad("timeout is %s: with a token audience at most %s, or no service would take the token", s.Timeout, MaxTokenLife)
	}
	if len(s.TokenAudience) > maxAudienceLength || strings.ContainsFunc(s.TokenAudience, func(r rune) bool { return r > 0x7e || !visible(byte(r)) }) {
		bad("token audience %q: want at most %d visible ASCII characters, such as https://ledger.internal", clip(s.TokenAudience, maxShownName), maxAudienceLength)
	}
}

// Limits of a Protection, beyond which it protects nobody.
const (
	maxCircuitFailures = 1000
	maxCircuitOpenFor  = time.Hour
	maxRetryShare      = 100
	maxRetryFloor      = 10_000
)

func (p Protection) check(bad badFunc) {
	for _, c := range []struct {
		what         string
		got, highest int
	}{
		{"breaker failures", p.Failures, maxCircuitFailures},
		{"retry budget share", p.RetryShare, maxRetryShare},
		{"retry budget floor", p.RetryFloor, maxRetryFloor},
	} {
		if c.got < 0 || c.got > c.highest {
			bad("contract: %s of %d: want at most %d", c.what, c.got, c.highest)
		}
	}
	if p.OpenFor < 0 || p.OpenFor > maxCircuitOpenFor {
		bad("contract: a breaker that is open for %s: want at most %s", p.OpenFor, maxCircuitOpenFor)
	}
}

// Hides reports whether the argument at a dotted path is sensitive, by itself or
// with what holds it.
func (s Spec) Hides(path string) bool {
	// A mark goes through lists, whichever item it is.
	named := slices.DeleteFunc(strings.Split(path, "."), isIndex)
	return slices.ContainsFunc(s.SensitiveArgs, func(mark string) bool {
		marked := slices.DeleteFunc(strings.Split(mark, "."), isIndex)
		return len(marked) <= len(named) && slices.Equal(marked, named[:len(marked)])
	})
}

func isIndex(segment string) bool {
	_, err := strconv.ParseUint(segment, 10, 31)
	return err == nil
}

// checkPath wants a dotted path of plain names.
func checkPath(path string) error {
	for segment := range strings.SplitSeq(path, ".") {
		if !plainName(segment) {
			return errors.New("want names of letters, digits, _ and - with dots between")
		}
	}
	return nil
}
