package optrace

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/onceward/onceward/ledger"
)

// Names of attributes. Those of attempts and look-ups that HTTP adapters add are in
// actions/httpaction.
const (
	TenantKey      = attribute.Key("onceward.tenant")
	OperationKey   = attribute.Key("onceward.operation")
	ActionTypeKey  = attribute.Key("onceward.action_type")
	AttemptKey     = attribute.Key("onceward.attempt")
	ProviderKey    = attribute.Key("onceward.provider")
	OutcomeKey     = attribute.Key("onceward.outcome")     // of an attempt
	DispositionKey = attribute.Key("onceward.disposition") // of a request
	ReasonKey      = attribute.Key("onceward.reason")      // of a refusal: the ErrorInfo reason
	StateKey       = attribute.Key("onceward.state")       // that the operation is in afterwards
	EventKey       = attribute.Key("onceward.event")       // that moved it
	ResultKey      = attribute.Key("onceward.result")      // of a look at a doubt
	DecisionKey    = attribute.Key("onceward.decision")    // of a policy, or a reviewer
	RuleKey        = attribute.Key("onceward.rule")        // that decided
)

// carrier is a traceparent as propagators read it.
type carrier string

const header = "traceparent"

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if key == header {
		return string(c)
	}
	return ""
}

// Set implements propagation.TextMapCarrier. Nothing is written to it.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return []string{header} }

// written is a traceparent as propagators write it. What else they write is not
// kept.
type written string

// Get implements propagation.TextMapCarrier. Nothing is read from it.
func (*written) Get(string) string { return "" }

// Set implements propagation.TextMapCarrier.
func (w *written) Set(key, value string) {
	if key == header {
		*w = written(value)
	}
}

// Keys implements propagation.TextMapCarrier.
func (*written) Keys() []string { return []string{header} }

// Of returns the span that an operation remembers. It is invalid where the
// operation has none, or one that is not as W3C Trace Context has it: what is
// stored is not trusted.
func Of(op *ledger.Operation) trace.SpanContext {
	if op.Run.TraceParent == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier(op.Run.TraceParent)))
}

// TraceID is the trace of an operation for the log, or empty.
func TraceID(op *ledger.Operation) string {
	if sc := Of(op); sc.IsValid() {
		return sc.TraceID().String()
	}
	return ""
}

// LogAttr is TraceID as a field of a log line: none where there is no trace.
func LogAttr(op *ledger.Operation) slog.Attr {
	if id := TraceID(op); id != "" {
		return slog.String("trace_id", id)
	}
	return slog.Attr{}
}

// Remember returns what an operation that is recorded in ctx is to remember, for
// ledger.Run.TraceParent: the span in ctx, or nothing where it is not kept.
func Remember(ctx context.Context) string {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || !span.SpanContext().IsSampled() {
		return ""
	}
	var w written
	propagation.TraceContext{}.Inject(ctx, &w)
	return string(w)
}

// Attributes name an operation in a span.
func Attributes(op *ledger.Operation) []attribute.KeyValue {
	return []attribute.KeyValue{
		TenantKey.String(op.Tenant), OperationKey.String(op.ID), ActionTypeKey.String(op.ActionType), AttemptKey.Int(op.Attempt),
	}
}

// Tracer begins spans. The zero value begins none. It is safe for concurrent use.
type Tracer struct{ tracer trace.Tracer }

// New makes a tracer of one part, with the import path of its package as its name.
// It begins no spans, at no cost, where provider is nil or does nothing.
func New(provider trace.TracerProvider, name string) Tracer {
	if _, off := provider.(noop.TracerProvider); off || provider == nil {
		return Tracer{}
	}
	return Tracer{provider.Tracer(name)}
}

// Within begins a span below the one in ctx, where that is kept.
func (t Tracer) Within(ctx context.Context, name string) (context.Context, trace.Span) {
	if t.tracer == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, noop.Span{}
	}
	return t.tracer.Start(ctx, name)
}

// Operation begins a span of what is done about an operation, in the operation's
// trace: below the span in ctx where that is in the same one, else below the span
// that the operation remembers, with a link to the one in ctx. Where the operation
// remembers none it is below the span in ctx, and where there is none either it is
// no span: whoever recorded the operation decided that its trace is not kept.
func (t Tracer) Operation(ctx context.Context, op *ledger.Operation, name string) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, noop.Span{}
	}
	here, its := trace.SpanContextFromContext(ctx), Of(op)
	if !here.IsValid() && !its.IsValid() {
		return ctx, noop.Span{}
	}
	return t.begin(ctx, op, name, here, its)
}

// Work is Operation for what nobody asked for, such as a look at a doubt: where
// there is no trace, it begins one.
func (t Tracer) Work(ctx context.Context, op *ledger.Operation, name string) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, noop.Span{}
	}
	return t.begin(ctx, op, name, trace.SpanContextFromContext(ctx), Of(op))
}

func (t Tracer) begin(ctx context.Context, op *ledger.Operation, name string, here, its trace.SpanContext) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithAttributes(Attributes(op)...)}
	if its.IsValid() && its.TraceID() != here.TraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, its)
		if here.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: here}))
		}
	}
	return t.tracer.Start(ctx, name, options...)
}

// Link points the span in ctx at the trace of an operation, unless it is in it.
func (t Tracer) Link(ctx context.Context, op *ledger.Operation) {
	if t.tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if its := Of(op); its.IsValid() && its.TraceID() != span.SpanContext().TraceID() {
		span.AddLink(trace.Link{SpanContext: its})
	}
}
