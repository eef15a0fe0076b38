package telemetry

import (
	"context"

	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// calls stands between a gRPC server and the observer of its calls, which would put the
// texts of errors into spans: who is answered may be told more than who looks at traces,
// and a text may repeat what was sent.
type calls struct{ stats.Handler }

// HandleRPC passes on what happens, of an error its code alone.
func (c calls) HandleRPC(ctx context.Context, what stats.RPCStats) {
	if end, ok := what.(*stats.End); ok && end.Error != nil {
		told := *end
		told.Error = status.Error(status.Code(end.Error), "")
		what = &told
	}
	c.Handler.HandleRPC(ctx, what)
}
