package httpaction

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// What spans say beside the semantic conventions of OpenTelemetry.
const (
	phaseAttribute   = "onceward.phase"         // how far the exchange came
	sentAttribute    = "onceward.sent"          // whether the provider may have seen any of a write
	offeredAttribute = "onceward.bytes_offered" // of a write
)

// startSpan begins the client span of one exchange. It has no url.full: paths
// and queries hold what the request is about. It sends no traceparent header
// either: what is sent is frozen, and providers are other people's.
func (s *Sender) startSpan(ctx context.Context, r Request) (context.Context, trace.Span) {
	tracer := s.o.Tracer
	if tracer == nil {
		around := trace.SpanFromContext(ctx)
		if !around.IsRecording() {
			return ctx, noop.Span{}
		}
		tracer = around.TracerProvider().Tracer("github.com/onceward/onceward/actions/httpaction")
	}
	method, name := r.Method, r.Method
	if !slices.Contains(knownMethods, method) {
		method, name = "_OTHER", "HTTP"
	}
	attributes := []attribute.KeyValue{attribute.String("http.request.method", method)}
	if u, err := checkURL(r.URL); err == nil {
		attributes = append(attributes,
			attribute.String("server.address", u.Hostname()), attribute.Int("server.port", portOf(u)))
	}
	return tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
}

// knownMethods are those that may name a span: their number must be small.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
}

func portOf(u *url.URL) int {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// endSpan says what became of an exchange. Its texts are words of ours: an
// error's own could repeat what was sent, or what came back.
func endSpan(span trace.Span, x Exchange, write bool) {
	span.SetAttributes(attribute.String(phaseAttribute, string(x.Phase)))
	if write {
		span.SetAttributes(attribute.String(sentAttribute, x.Sent.String()), attribute.Int64(offeredAttribute, x.BytesOffered))
	}
	if x.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", x.Status))
	}
	if kind := errorType(x); kind != "" {
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// errorType is one of few words for what went wrong, or "".
func errorType(x Exchange) string {
	switch {
	case errors.Is(x.Err, ErrNotSendable):
		return "not_sendable"
	case errors.Is(x.Err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(x.Err, context.Canceled):
		return "cancelled"
	case x.Err != nil:
		return string(x.Phase)
	case x.Status >= 400:
		return strconv.Itoa(x.Status)
	}
	return ""
}
