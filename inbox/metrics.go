package inbox

// What becomes of a message.
const (
	resultStored      = "stored"      // verified, and what it proves is in the ledger
	resultUnverified  = "unverified"  // nobody proved that it is the provider's
	resultUnreadable  = "unreadable"  // its body did not come in, or makes no sense
	resultUnknown     = "unknown"     // no such tenant, or it has no such provider
	resultUnavailable = "unavailable" // the provider is asked to send it again
)

// Metrics is told of each message. It must be safe for concurrent use and not
// block.
type Metrics interface {
	// Received is told what became of a message. Unless it is verified, tenant and
	// provider are what a stranger wrote into the path: any text at all.
	Received(tenant, provider, result string, verified bool)
}

// unmeasured is nobody who measures.
type unmeasured struct{}

func (unmeasured) Received(string, string, string, bool) {}
