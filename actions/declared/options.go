package declared

import (
	"context"
	"net"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions/definition"
)

// Options say how definitions meet this installation. Their functions must be
// safe for concurrent use.
type Options struct {
	// Secret resolves a reference to a secret for a tenant. It is called at each
	// attempt, so that secrets can be rotated. Its error must not hold the secret.
	// It may be nil for providers without credentials.
	Secret func(ref definition.Secret, tenant string) (string, error)

	// BaseURL, if set, says where a provider is played ("http://127.0.0.1:8080");
	// empty leaves the provider where it is. Requests to any of its origins, and
	// those for tokens, go there, and nowhere else.
	BaseURL func(provider string) string
	// PrivateNetworks may be dialled beside those that the definition names; for
	// BaseURL.
	PrivateNetworks []netip.Prefix

	// Now is the clock of pace and tokens, and of signatures; default time.Now.
	Now func() time.Time

	// Resolver and Dial are those of httpaction.Options.
	Resolver *net.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)

	// Tracer is that of httpaction.Options; token calls have spans too.
	Tracer trace.Tracer
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
