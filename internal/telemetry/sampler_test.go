package telemetry

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Whoever sets the flag is traced, and a flood of them is not: no credential is
// looked at before.
func TestParentsThatAreKeptAreBounded(t *testing.T) {
	t.Parallel()
	sampler := newSampler(0)
	sampled := func(flags trace.TraceFlags) bool {
		parent := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
		}))
		return sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: parent, TraceID: trace.TraceID{1}}).Decision == sdktrace.RecordAndSample
	}
	if !sampled(trace.FlagsSampled) || sampled(0) {
		t.Fatal("a caller that keeps its trace is followed, and one that does not is not")
	}
	kept := 0
	for range 20 * parentsAtOnce {
		if sampled(trace.FlagsSampled) {
			kept++
		}
	}
	if kept > 10*parentsAtOnce {
		t.Errorf("%d of %d made-up parents were kept", kept, 20*parentsAtOnce)
	}
}
