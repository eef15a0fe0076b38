package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Spec describes an action type. The zero value of each field is the careful
// choice.
type Spec struct {
	Type        string          // "payments.refund.create": dotted lower-case words
	Version     string          // of the adapter's rendering; recorded with each operation
	Description string          // one sentence for planners and people
	Owner       string          // team that answers for it
	Risk        Risk            // shown to planners, reviewers and policies
	Schema      json.RawMessage // JSON Schema (2020-12) of the arguments object

	// Key is the key recipe, used when the caller gives no key. Empty means
	// run and step.
	Key []KeyPart
	// HashKey stores and shows composed keys as their SHA-256, for recipes
	// over sensitive arguments.
	HashKey bool
	// AdvisoryArgs names top-level arguments that do not identify the action
	// (a note that the model rephrases): recorded, first one wins, no mismatch.
	AdvisoryArgs []string

	// RequiresApproval makes every operation wait for a reviewer, at most for
	// ApprovalTTL (default 24 h), before anything is sent.
	RequiresApproval bool
	ApprovalTTL      time.Duration

	// Spending says what an operation costs and who gets it, for budgets.
	Spending Spending
	// Intents are the goals that the action belongs to: while an operation under
	// one is open, another one is refused.
	Intents []Intent
	// SensitiveArgs are dotted paths of arguments, and SensitiveReceipt names of
	// top-level receipt fields, that nobody sees but those who decide about the
	// action: "[redacted]" stands in their place.
	SensitiveArgs    []string
	SensitiveReceipt []string
	// TokenAudience is the audience of operation tokens for the internal service
	// that performs the write, in the stage enforce; empty: it takes none.
	TokenAudience string

	Contract Contract

	Timeout time.Duration // of one attempt; default 30 s
	// MaxAttempts is how many provider calls an operation may make; default 5.
	// What a rate limit turned away with proof of no effect (the provider's, or
	// the adapter's own pace) does not count: it may happen ten times as often.
	MaxAttempts int
	// MaxResolves is how often the reconciler tries to resolve one doubt
	// before a person is asked; default 12.
	MaxResolves int

	// Window is how long a finished operation answers for its key; default
	// 30 days. ExpiredKey says what a key is after it.
	Window     time.Duration
	ExpiredKey ExpiredKey
}

// Risk grades what a mistake would cost.
type Risk int

// The grades of risk; an action type that names none is RiskUnspecified.
const (
	RiskUnspecified Risk = iota
	RiskLow
	RiskMedium
	RiskHigh
)

func (r Risk) String() string { return name(r, "unspecified", "low", "medium", "high") }

// ExpiredKey says what a key means after its window.
type ExpiredKey int

const (
	// Reject refuses the key for ever; a tombstone outlives the row.
	Reject ExpiredKey = iota
	// Reuse makes the key free for a new operation.
	Reuse
)

func (e ExpiredKey) String() string { return name(e, "reject", "reuse") }

// KeyPart is one named part of a key recipe.
type KeyPart struct {
	Name string // shown in the key: "invoice"
	From string // "tenant", "action", "run", "step" or "arguments.<path>", path dotted
}

// Spending holds expressions (CEL) over args. The zero value spends nothing.
type Spending struct {
	// Amount is in the currency's major unit: an integer, or the text of an exact
	// decimal. minor_to_decimal(args.amount, 2) makes one of cents.
	Amount string
	// Currency is a text (ISO 4217); required with Amount.
	Currency string
	// Counterparty is a text: who gets it, or is concerned by it.
	Counterparty string
}

// Contract is what a provider promises about keys and look-ups.
type Contract struct {
	Provider string // "fakepay"
	Version  string // recorded with each operation
	Keys     KeyRules
	Lookup   LookupRules
	// LateLanding is how long after a proved absence an attempt could still
	// land; the reconciler looks again until then.
	LateLanding time.Duration
	// EventWait is how long a doubt waits for the provider's own event (a
	// webhook, [Source]) before a person is asked, where nothing else can find
	// out. Zero: the provider sends none.
	EventWait time.Duration
}

// KeyRules say how the provider treats our key. The zero value: not at all.
type KeyRules struct {
	Honoured  bool // the same key is executed once inside Window
	MaxLength int  // characters; 0 means no limit that matters
	// Window is counted from the first send; Margin is taken off its end.
	Window, Margin time.Duration
	// StoresFailures: an answered failure is replayed too, so that a try
	// after proof of not-applied needs a new key epoch.
	StoresFailures bool
	// InFlight is how long a request may be worked on without the provider's
	// promise to take a second one under its key for a duplicate: a replay waits
	// so long after the doubt. Zero: it promises that at once.
	InFlight time.Duration
}

// Horizon is how long after the first send the provider still recognises our
// key; zero where it never does.
func (k KeyRules) Horizon() time.Duration {
	if !k.Honoured {
		return 0
	}
	return max(k.Window-k.Margin, 0)
}

// LookupRules say what a look-up that finds nothing proves. The zero value:
// nothing.
type LookupRules struct {
	// Authoritative: after SettleTime since the last attempt could have
	// landed, NegativeReads reads in a row without a find prove absence.
	Authoritative bool
	SettleTime    time.Duration
	NegativeReads int           // default 2
	ReadGap       time.Duration // least time between two reads; default 1 s
}

// Defaults of a Spec.
const (
	DefaultTimeout       = 30 * time.Second
	DefaultMaxAttempts   = 5
	DefaultMaxResolves   = 12
	DefaultWindow        = 30 * 24 * time.Hour
	DefaultApprovalTTL   = 24 * time.Hour
	DefaultNegativeReads = 2
	DefaultReadGap       = time.Second
)

// ProviderKeyLength is the length of the keys that Onceward derives.
const ProviderKeyLength = 26

// WithDefaults returns the spec with zero durations and counts replaced by
// the defaults.
func (s Spec) WithDefaults() Spec {
	s.Timeout = orDefault(s.Timeout, DefaultTimeout)
	s.MaxAttempts = orDefault(s.MaxAttempts, DefaultMaxAttempts)
	s.MaxResolves = orDefault(s.MaxResolves, DefaultMaxResolves)
	s.Window = orDefault(s.Window, DefaultWindow)
	s.ApprovalTTL = orDefault(s.ApprovalTTL, DefaultApprovalTTL)
	s.Contract.Lookup.NegativeReads = orDefault(s.Contract.Lookup.NegativeReads, DefaultNegativeReads)
	s.Contract.Lookup.ReadGap = orDefault(s.Contract.Lookup.ReadGap, DefaultReadGap)
	return s
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

var (
	typePattern = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	partPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
)

// check reports every contradiction in the spec (after WithDefaults).
func (s Spec) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(s.Type) > 100 || !typePattern.MatchString(s.Type) {
		bad("type %q: want dotted lower-case words of at most 100 characters, such as payments.refund.create", s.Type)
	}
	if s.Version == "" {
		bad("version is empty: it is recorded with each operation")
	}
	if s.Contract.Provider == "" || s.Contract.Version == "" {
		bad("contract: provider and version are required")
	}
	names := map[string]bool{}
	for _, p := range s.Key {
		if !partPattern.MatchString(p.Name) {
			bad("key part name %q: want lower-case letters, digits and _", p.Name)
		}
		if names[p.Name] {
			bad("key part name %q is used twice", p.Name)
		}
		names[p.Name] = true
		if p.Name == distinctPart {
			bad("key part name %q is taken: it marks a deliberate second action", p.Name)
		}
		if path, ok := strings.CutPrefix(p.From, fromArguments); ok {
			if top, _, _ := strings.Cut(path, "."); slices.Contains(s.AdvisoryArgs, top) {
				bad("key part %s: argument %s is advisory, so that it cannot identify the action", p.Name, top)
			}
		}
		if err := checkKeySource(p.From); err != nil {
			bad("key part %s: %w", p.Name, err)
		}
	}
	k := s.Contract.Keys
	switch {
	case k.Honoured && k.MaxLength > 0 && k.MaxLength < ProviderKeyLength:
		bad("contract: keys of %d characters cannot hold ours of %d", k.MaxLength, ProviderKeyLength)
	case k.Honoured && k.Horizon() <= 0:
		bad("contract: keys are honoured but their window (%s) less the margin (%s) is empty", k.Window, k.Margin)
	}
	for what, d := range map[string]time.Duration{
		"timeout": s.Timeout, "window": s.Window, "approval_ttl": s.ApprovalTTL,
		"settle_time": s.Contract.Lookup.SettleTime, "late_landing": s.Contract.LateLanding,
		"event_wait": s.Contract.EventWait, "key in_flight": s.Contract.Keys.InFlight,
		"read_gap": s.Contract.Lookup.ReadGap, "key window": s.Contract.Keys.Window, "key margin": s.Contract.Keys.Margin,
	} {
		if d < 0 {
			bad("%s is negative", what)
		}
	}
	if s.MaxAttempts < 0 || s.MaxResolves < 0 || s.Contract.Lookup.NegativeReads < 0 {
		bad("max_attempts, max_resolves and negative_reads cannot be negative")
	}
	if s.Contract.Lookup.Authoritative && s.Contract.Lookup.NegativeReads >= s.MaxResolves {
		bad("contract: %d negative reads never fit into %d resolves: absence could not be proved", s.Contract.Lookup.NegativeReads, s.MaxResolves)
	}
	return errors.Join(errs...)
}
