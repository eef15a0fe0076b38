package reconciler

import (
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Results of a look at a doubt, beside the findings of a look-up that say more
// ("foreign", "ended").
const (
	resultFound        = "found"        // a receipt
	resultAbsent       = "absent"       // its absence is proved
	resultNotSeen      = "not_seen"     // nothing was found, which proves nothing yet
	resultInconclusive = "inconclusive" // the provider did not say
	resultReplayed     = "replayed"     // sent again with the same key
	resultEscalated    = "escalated"    // a person is asked
	resultPostponed    = "postponed"    // it cannot be worked on now
	resultOvertaken    = "overtaken"    // somebody else has moved it meanwhile
	resultError        = "error"        // the ledger did not answer
)

// Metrics is told what the reconciler does. It must be safe for concurrent use and
// not block.
type Metrics interface {
	// Looked is told of a look at a doubt, and what came of it. provider is empty
	// where the adapter is not here.
	Looked(tenant, actionType, provider, result string)
	// LookedUp is told how long a provider took for a look-up.
	LookedUp(provider string, took time.Duration)
	// Round is told of each complete round: what was due was taken, and is done by
	// others.
	Round(ended time.Time, took time.Duration)
}

// unmeasured is nobody who measures.
type unmeasured struct{}

func (unmeasured) Looked(string, string, string, string) {}
func (unmeasured) LookedUp(string, time.Duration)        {}
func (unmeasured) Round(time.Time, time.Duration)        {}

// endSpan ends a span. What an error says may repeat what a caller sent: the span
// says only that there was one.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
