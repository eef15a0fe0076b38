package dispatch

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

// withSpanOf is ctx with the span of another context, and nothing else of it.
func withSpanOf(ctx, other context.Context) context.Context {
	if span := trace.SpanFromContext(other); span.IsRecording() {
		return trace.ContextWithSpan(ctx, span)
	}
	return ctx
}

// endSpan ends a span of a step. What an error says may repeat what a caller sent:
// the span says only that there was one.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// endAttempt says what an attempt proved.
func endAttempt(span trace.Span, provider string, kind actions.Kind) {
	if span.IsRecording() {
		span.SetAttributes(optrace.ProviderKey.String(provider), optrace.OutcomeKey.String(kind.String()))
		if kind != actions.Applied && kind != actions.Accepted {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}

// endSettle says what became of the operation.
func endSettle(span trace.Span, op ledger.Operation) {
	if span.IsRecording() {
		span.SetAttributes(optrace.StateKey.String(string(op.State)), optrace.EventKey.String(string(op.LastEvent)))
	}
	span.End()
}
