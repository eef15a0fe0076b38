package optrace_test

import (
	"context"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	kept    = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func remembering(traceParent string) *ledger.Operation {
	return &ledger.Operation{Tenant: "acme", ID: "op-1", ActionType: "refund", Attempt: 2, Run: ledger.Run{TraceParent: traceParent}}
}

// What is stored is not trusted: what is no traceparent is none.
func TestOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stored string
		valid  bool
	}{
		"kept":             {kept, true},
		"none":             {"", false},
		"rubbish":          {"rubbish", false},
		"zero trace":       {"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", false},
		"zero span":        {"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", false},
		"upper case":       {strings.ToUpper(kept), false},
		"too long":         {kept + "-more", false},
		"a line in it":     {kept[:54] + "\n", false},
		"forbidden":        {"ff" + kept[2:], false},
		"a megabyte of it": {strings.Repeat(kept, 20_000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := remembering(test.stored)
			sc := optrace.Of(op)
			if sc.IsValid() != test.valid {
				t.Fatalf("valid is %t", sc.IsValid())
			}
			want := ""
			if test.valid {
				want = traceID
			}
			if got := optrace.TraceID(op); got != want {
				t.Errorf("the trace is %q", got)
			}
			if got := optrace.LogAttr(op); got.Key != "" != test.valid {
				t.Errorf("the log has %v", got)
			}
		})
	}
}

func TestRemember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sampler sdktrace.Sampler
		kept    bool
	}{"kept": {sdktrace.AlwaysSample(), true}, "not kept": {sdktrace.NeverSample(), false}} {
		ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSampler(test.sampler)).Tracer("").Start(t.Context(), "request")
		got := optrace.Remember(ctx)
		if (got != "") != test.kept {
			t.Errorf("%s: remembered %q", name, got)
		}
		if sc := optrace.Of(remembering(got)); test.kept && sc.SpanID() != span.SpanContext().SpanID() {
			t.Errorf("%s: %q is not the span", name, got)
		}
	}
	// A caller's trace is not ours to keep while nothing is traced here.
	remote := trace.ContextWithRemoteSpanContext(t.Context(), optrace.Of(remembering(kept)))
	if got := optrace.Remember(remote); got != "" {
		t.Errorf("remembered %q", got)
	}
}

// Where a span goes: by what is in the context, and what the operation remembers.
func TestParents(t *testing.T) {
	t.Parallel()
	type begin func(optrace.Tracer, context.Context, *ledger.Operation) (context.Context, trace.Span)
	operation := begin(func(t optrace.Tracer, ctx context.Context, op *ledger.Operation) (context.Context, trace.Span) {
		return t.Operation(ctx, op, "step")
	})
	work := begin(func(t optrace.Tracer, ctx context.Context, op *ledger.Operation) (context.Context, trace.Span) {
		return t.Work(ctx, op, "step")
	})
	const nowhere, root, its, here = "no span", "a root", "below the operation's", "below the one in the context"
	for name, test := range map[string]struct {
		begin      begin
		remembered string
		inside     string // what the context has: "", "another" trace's, or "same"
		want       string
		links      int
	}{
		"asked for, no trace":                   {operation, "", "", nowhere, 0},
		"unasked, no trace":                     {work, "", "", root, 0},
		"bad text is no parent":                 {operation, "rubbish", "", nowhere, 0},
		"bad text is no parent, unasked":        {work, "rubbish", "", root, 0},
		"the operation's":                       {operation, kept, "", its, 0},
		"the operation's, unasked":              {work, kept, "", its, 0},
		"the operation's, linked with the call": {operation, kept, "another", its, 1},
		"the call's where there is none":        {operation, "", "another", here, 0},
		"in the operation's already":            {operation, kept, "same", here, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			tracer, ctx, op := optrace.New(provider, "test"), t.Context(), remembering(test.remembered)
			var outer trace.Span
			switch test.inside {
			case "another":
				ctx, outer = provider.Tracer("").Start(ctx, "call")
			case "same":
				ctx, outer = provider.Tracer("").Start(trace.ContextWithRemoteSpanContext(ctx, optrace.Of(op)), "call")
			}
			_, span := test.begin(tracer, ctx, op)
			span.End()
			ended := recorder.Ended()
			if test.want == nowhere {
				if len(ended) > 0 {
					t.Errorf("there is a span below %v", ended[0].Parent())
				}
				return
			}
			if len(ended) != 1 {
				t.Fatalf("%d spans", len(ended))
			}
			var parent trace.SpanContext
			switch test.want {
			case its:
				parent = optrace.Of(op)
			case here:
				parent = outer.SpanContext()
			}
			if got := ended[0].Parent(); got.SpanID() != parent.SpanID() || got.TraceID() != parent.TraceID() {
				t.Errorf("it is below %v, want %s", got, test.want)
			}
			if got := len(ended[0].Links()); got != test.links {
				t.Errorf("%d links, want %d", got, test.links)
			}
		})
	}
}

// Who traces nothing pays nothing.
func TestOffCostsNothing(t *testing.T) {
	ctx, op := t.Context(), remembering(kept)
	for name, tracer := range map[string]optrace.Tracer{
		"zero": {}, "none": optrace.New(nil, "test"), "noop": optrace.New(noop.NewTracerProvider(), "test"),
	} {
		allocations := testing.AllocsPerRun(100, func() {
			_, a := tracer.Within(ctx, "step")
			_, b := tracer.Operation(ctx, op, "step")
			_, c := tracer.Work(ctx, op, "step")
			tracer.Link(ctx, op)
			a.End()
			b.End()
			c.End()
			_ = optrace.Remember(ctx)
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}
