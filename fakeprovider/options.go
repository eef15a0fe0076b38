package fakeprovider

import "time"

// Defaults of [Options].
const (
	DefaultToken       = "fake-provider-token"
	DefaultKeyWindow   = 24 * time.Hour
	DefaultMaxRequests = 100_000
)

// Options says how the provider behaves when no fault is scripted. The zero
// value is a well-behaved provider on the system's clock.
type Options struct {
	// Token is the bearer token that every /v1/ request needs.
	// Empty means [DefaultToken].
	Token string

	// Clock is the provider's time: key window, search lag, scripted delays.
	// Nil means the system's clock. See [ManualClock].
	Clock Clock

	// KeyWindow is how long an idempotency key is recognised, counted from
	// its first use. Zero means [DefaultKeyWindow].
	KeyWindow time.Duration

	// StoreFailures makes failures that are produced after execution began
	// stick to their key and be replayed, as Stripe's API v1 does. Without it
	// a failure without an effect frees the key, and a failure after an effect
	// is followed by the success on replay, as with PayPal.
	StoreFailures bool

	// IgnoreKeys makes payments ignore the Idempotency-Key header: each
	// accepted call is an effect.
	IgnoreKeys bool

	// SearchLag is how long a new mail stays invisible to the e-mail search.
	// A read by the mail's own id sees it at once.
	SearchLag time.Duration

	// MaxRequests bounds how many received requests are remembered; the
	// oldest are dropped. Zero means [DefaultMaxRequests].
	MaxRequests int
}

func (o Options) withDefaults() Options {
	if o.Token == "" {
		o.Token = DefaultToken
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.KeyWindow == 0 {
		o.KeyWindow = DefaultKeyWindow
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = DefaultMaxRequests
	}
	return o
}
