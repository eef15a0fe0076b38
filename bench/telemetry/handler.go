package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/stats"
)

// New returns a stats handler for a server and what ends it.
func New() (handler stats.Handler, shutdown func(context.Context) error) {
	traces := sdktrace.NewTracerProvider()
	// A reader must be there, or instruments record nothing.
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	handler = otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(traces), otelgrpc.WithMeterProvider(metrics))
	return handler, func(ctx context.Context) error {
		return errors.Join(traces.Shutdown(ctx), metrics.Shutdown(ctx))
	}
}
