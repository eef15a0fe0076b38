package telemetry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

// Who has no credential can name any method: gRPC itself answers, and neither a label
// nor a span has the name.
func TestMethodsThatStrangersMakeUp(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	r, told := w.observed(t, 1, nil)
	for i := range 5 {
		for _, method := range []string{
			fmt.Sprintf("/planted.Service%d/Method", i), fmt.Sprintf("/onceward.v1.ActionService/planted%d", i),
			fmt.Sprintf("/onceward.v1.Operation/planted%d", i), fmt.Sprintf("/planted%d", i),
		} {
			err := r.Conn.Invoke(t.Context(), method, &emptypb.Empty{}, &emptypb.Empty{})
			if status.Code(err) != codes.Unimplemented {
				t.Fatalf("%s: %v", method, err)
			}
		}
	}
	w.Ask(t, r, apptest.Contact("li@example.test"))

	w.span(t, requestSpan, "") // what exists is seen
	for _, s := range w.spans.Ended() {
		if text := fmt.Sprint(s.Name(), s.Attributes(), s.Status()); strings.Contains(text, "planted") {
			t.Errorf("a span has the name: %s", text)
		}
	}
	methods := map[string]bool{}
	apptest.Eventually(t, func() bool {
		families, err := told.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, pair := range m.GetLabel() {
					if pair.GetName() == "rpc_method" {
						methods[pair.GetValue()] = true
					}
				}
			}
		}
		return methods[requestSpan]
	}, func() string { return fmt.Sprint(methods) })
	if len(methods) != 1 {
		t.Errorf("the metrics have the methods %v", methods)
	}
}

// away is a ledger that says why it is away.
type away struct{ app.Ledger }

func (away) Open(context.Context, ledger.Opening) (ledger.Operation, bool, error) {
	return ledger.Operation{}, false, fmt.Errorf("%w: planted", ledger.ErrUnavailable)
}

// The span of a call that failed has its status, and no text: who is answered may be
// told more than who looks at traces.
func TestSpansOfCallsHaveNoTexts(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	r, _ := w.observed(t, 1, func(c *app.Config) { c.WrapLedger = func(l app.Ledger) app.Ledger { return away{l} } })
	if _, err := w.Try(t.Context(), r, apptest.Contact("li@example.test")); status.Code(err) != codes.Unavailable || status.Convert(err).Message() == "" {
		t.Fatal(err)
	}
	s := w.span(t, requestSpan, "")
	if got := attributeOf(s, "rpc.response.status_code"); got != "UNAVAILABLE" {
		t.Errorf("the span has the status %q", got)
	}
	if s.Status().Code.String() != "Error" || s.Status().Description != "" {
		t.Errorf("the span ended with %+v", s.Status())
	}
}
