package httpaction_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions/httpaction"
)

// traced makes a sender whose spans are recorded, and one span around it all.
func traced(t *testing.T, p *provider, change func(*httpaction.Options)) (*httpaction.Sender, context.Context, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	ctx, parent := tracer.Start(t.Context(), "attempt")
	t.Cleanup(func() { parent.End() })
	return p.sender(t, func(o *httpaction.Options) {
		o.Tracer = tracer
		if change != nil {
			change(o)
		}
	}), ctx, recorder
}

// attributesOf returns the attributes of a span as text.
func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// One span for one exchange, with what was seen of it, below the caller's; and
// nothing of the trace, the request or the answer goes where it does not belong.
func TestSpans(t *testing.T) {
	t.Parallel()
	const personal = "ada.lovelace"
	answered := "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"m\":\"lovelace\"}"
	for name, test := range map[string]struct {
		behave  behave
		read    bool
		change  func(*httpaction.Options)
		request func(*httpaction.Request)
		want    map[string]string // "" is: not there
	}{
		"a success": {behave: say(created), want: map[string]string{
			"http.request.method": "POST", "http.response.status_code": "201", "error.type": "",
			"onceward.phase": "done", "onceward.sent": "maybe sent",
		}},
		"a refusal": {behave: say(answered), want: map[string]string{
			"http.response.status_code": "404", "error.type": "404", "onceward.phase": "done",
		}},
		"a look-up": {behave: say(answered), read: true, want: map[string]string{
			"http.request.method": "GET", "http.response.status_code": "404", "onceward.sent": "", "onceward.bytes_offered": "",
		}},
		"no answer": {behave: sayThenCut(""), want: map[string]string{
			"http.response.status_code": "", "error.type": "headers", "onceward.phase": "headers", "onceward.sent": "maybe sent",
		}},
		"an answer that is cut": {behave: sayThenCut("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), want: map[string]string{
			"http.response.status_code": "200", "error.type": "body", "onceward.phase": "body",
		}},
		"no answer in time": {behave: hang(""), change: func(o *httpaction.Options) { o.Timeout = 50 * time.Millisecond }, want: map[string]string{
			"error.type": "timeout", "onceward.phase": "headers",
		}},
		"nobody there": {change: func(o *httpaction.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, fmt.Errorf("no route to %s", personal)
			}
		}, want: map[string]string{
			"error.type": "dial", "onceward.phase": "dial", "onceward.sent": "not sent", "onceward.bytes_offered": "0",
		}},
		"what cannot be sent": {request: func(r *httpaction.Request) { r.Method = "MOVE IT" }, want: map[string]string{
			"http.request.method": "_OTHER", "error.type": "not_sendable", "onceward.phase": "prepare", "onceward.sent": "not sent",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.behave == nil {
				test.behave = say(created)
			}
			p := serve(t, test.behave)
			s, ctx, recorder := traced(t, p, test.change)
			r := keyed(p.url)
			r.URL += "/" + personal + "?address=" + personal
			r.Body = []byte(personal)
			if test.request != nil {
				test.request(&r)
			}
			if test.read {
				r.Method, r.Body = http.MethodGet, nil
				s.Read(ctx, r)
			} else {
				s.Send(ctx, r)
			}
			spans := recorder.Ended()
			if len(spans) != 1 {
				t.Fatalf("%d spans, want one", len(spans))
			}
			span := spans[0]
			if span.SpanKind() != trace.SpanKindClient || span.Parent().SpanID() != trace.SpanContextFromContext(ctx).SpanID() {
				t.Errorf("a %s span below %s", span.SpanKind(), span.Parent().SpanID())
			}
			got := attributesOf(span)
			for key, want := range test.want {
				if got[key] != want {
					t.Errorf("%s is %q, want %q", key, got[key], want)
				}
			}
			u, err := url.Parse(p.url)
			if err != nil || got["server.address"] != u.Hostname() || got["server.port"] != u.Port() {
				t.Errorf("to %s:%s, want %s", got["server.address"], got["server.port"], p.url)
			}
			if all := fmt.Sprint(got, span.Name(), span.Status(), span.Events()); strings.Contains(all, "lovelace") || strings.Contains(all, "refunds") {
				t.Errorf("the span tells what it was about: %s", all)
			}
			if p.effects() > 0 {
				for header := range p.request(t, 0).header {
					if h := strings.ToLower(header); h == "traceparent" || h == "tracestate" || h == "baggage" {
						t.Errorf("%s was sent to the provider", header)
					}
				}
			}
		})
	}
}
