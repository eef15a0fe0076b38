package telemetry

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// How many spans a second may be kept because a parent elsewhere is: the caller's,
// which a stranger can make up, or an operation's own from before.
const (
	parentsPerSecond = 1000
	parentsAtOnce    = 2000
)

// newSampler keeps a share of the traces that begin here, and those that a caller
// keeps, for as long as they are not more than somebody honest would send: the flag
// that asks for it comes before any credential is looked at.
func newSampler(ratio float64) sdktrace.Sampler {
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio),
		sdktrace.WithRemoteParentSampled(&limitedSampler{rate.NewLimiter(parentsPerSecond, parentsAtOnce)}))
}

// limitedSampler keeps what comes within a rate. It is safe for concurrent use.
type limitedSampler struct{ limit *rate.Limiter }

// ShouldSample implements sdktrace.Sampler.
func (s *limitedSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.Drop
	if s.limit.Allow() {
		decision = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description implements sdktrace.Sampler.
func (*limitedSampler) Description() string { return "Limited" }
