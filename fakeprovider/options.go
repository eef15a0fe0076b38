package fakeprovider

import "time"

// Defaults of [Options].
const (
	DefaultToken       = "fake-provider-token"
	DefaultKeyWindow   = 24 * time.Hour
	DefaultMaxRequests = 100_000
)

// Options says how the provider behaves when no fault is scripted. The zero
// value is a well-behaved provider on the system's clock, with the three
// built-in resources.
type Options struct {
	// Token is the bearer token that every request to the provider needs, where
	// Auth is nil. Empty means [DefaultToken].
	Token string

	// Clock is the provider's time: key window, search lag, scripted delays.
	// Nil means the system's clock. See [ManualClock].
	Clock Clock

	// KeyWindow is how long payments recognise an idempotency key, counted from
	// its first use. Zero means [DefaultKeyWindow].
	KeyWindow time.Duration

	// StoreFailures makes failures of payments that are produced after
	// execution began stick to their key and be replayed, as Stripe's API v1
	// does. Without it a failure without an effect frees the key, and a failure
	// after an effect is followed by the success on replay, as with PayPal.
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

	// Resources are what the provider plays, in place of the built-in ones.
	Resources []Resource
	// Endpoints are calls beside them, such as one for an access token.
	Endpoints []Endpoint
	// BasePath is taken off the path of a request that begins with it, before
	// it is routed: "/v72". Requests without it are served too.
	BasePath string
	// Auth refuses a request without good credentials. It returns nil for one
	// with. A nil Auth asks for Token.
	Auth func(*Call) *Answer
	// Failure gives an error the provider's shape. Nil is that of the built-in
	// resources.
	Failure func(Failure) Answer
	// Controls are calls of the control API beside the provider's own.
	Controls []Control
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
	if len(o.Resources) == 0 {
		o.Resources = builtins(o)
	}
	if o.Failure == nil {
		o.Failure = plainFailure
	}
	return o
}
