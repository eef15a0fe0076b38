package telemetry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/telemetry"
)

// Strangers who call methods that do not exist make no names of metrics or spans:
// there they would take the places of real methods, or, where a name is not UTF-8, all
// of them out of the exposition. That gRPC tells nobody of the end of such calls is
// what keeps them out.
func TestMethodsThatDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	r, told := w.observed(t, 1, withoutReconciler)
	for i := range 100 {
		call(t, r.Conn, fmt.Sprintf("/onceward.v1.ActionService/Planted%d", i))
	}
	for _, method := range []string{"/planted\xff.Service/Planted", "/Planted", "/onceward.v1.AdapterService/Planted", "//", "/" + strings.Repeat("Planted/", 500)} {
		call(t, r.Conn, method)
	}
	w.Ask(t, r, apptest.Note("s", "run_1"))

	w.span(t, requestSpan, "")
	var methods []string
	apptest.Eventually(t, func() bool {
		methods = methodsOf(t, told)
		return len(methods) > 0
	}, w.tree)
	if !slices.Equal(methods, []string{requestSpan}) {
		t.Errorf("%d methods have metrics: %.300q, want %q alone", len(methods), methods, requestSpan)
	}
	for _, s := range w.spans.Ended() {
		if text := fmt.Sprint(s.Name(), s.Attributes(), s.Status().Description); strings.Contains(text, "Planted") {
			t.Fatalf("a span has what a stranger made up: %.300s", text)
		}
	}
}

func call(t *testing.T, conn *grpc.ClientConn, method string) {
	t.Helper()
	err := conn.Invoke(t.Context(), method, &emptypb.Empty{}, &emptypb.Empty{})
	if c := status.Code(err); c != codes.Unimplemented && c != codes.Internal {
		t.Fatalf("%q: %v", method, err)
	}
}

// methodsOf returns the methods that metrics of calls name, in order.
func methodsOf(t *testing.T, told *telemetry.Telemetry) (methods []string) {
	t.Helper()
	families, err := told.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "rpc_server_call_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetName() == "rpc_method" {
					methods = append(methods, pair.GetValue())
				}
			}
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
