package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/stats"
)

// Options say what is told, and to whom.
type Options struct {
	// Version is of the binary, for build information and the traces' resource.
	Version string
	// Instance names this process in traces; empty: none.
	Instance string
	// OTLPEndpoint is the URL of an OTLP/gRPC receiver ("http://127.0.0.1:4317",
	// "https://collector.example:4317"); empty sends no traces.
	OTLPEndpoint string
	// SampleRatio is the share of requests, from 0 to 1, whose trace is kept where
	// the caller has not decided it.
	SampleRatio float64
	// MaxTenants, MaxActionTypes and MaxProviders bound the values of the labels of
	// that name; what comes later is counted as "other". Zero: the defaults, 100,
	// 200 and 100.
	MaxTenants, MaxActionTypes, MaxProviders int
	// Processors get the spans too, each as it ends: of a receiver of one's own, or
	// a test. With one, there are traces without an OTLP endpoint.
	Processors []sdktrace.SpanProcessor
}

// Telemetry holds the registry and the tracers of one process. It is safe for
// concurrent use. Shut it down.
type Telemetry struct {
	// Registry has every metric of the process.
	Registry *prometheus.Registry
	// Tracers make spans; they do nothing without an OTLP endpoint.
	Tracers trace.TracerProvider
	// Ledger is told of the store and of what is open in it.
	Ledger *Ledger

	// What the parts tell.
	Requests *Requests
	Moves    *Moves
	Attempts *Attempts
	Repairs  *Repairs
	Webhooks *Webhooks
	Reloads  *Reloads

	labels   *labels
	handler  stats.Handler
	shutdown []func(context.Context) error
}

// New makes the telemetry of a process. It fails when an option makes no sense;
// a receiver that does not answer is no error.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	if !(o.SampleRatio >= 0 && o.SampleRatio <= 1) { // not a number is neither
		return nil, fmt.Errorf("telemetry: a sample ratio is from 0 to 1, not %g", o.SampleRatio)
	}
	t := &Telemetry{Registry: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider()}
	t.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registerBuild(t.Registry, o.Version)
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("onceward"), semconv.ServiceVersion(o.Version), semconv.ServiceInstanceID(o.Instance)))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.labels = newLabels(o)
	t.Ledger = newLedger(t.Registry, t.labels.actionTypes.of)
	t.Requests, t.Moves = newRequests(t.Registry, t.labels), newMoves(t.Registry, t.labels)
	t.Attempts, t.Repairs = newAttempts(t.Registry, t.labels), newRepairs(t.Registry, t.labels)
	t.Webhooks, t.Reloads = newWebhooks(t.Registry, t.labels), newReloads(t.Registry)
	if o.OTLPEndpoint != "" {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.OTLPEndpoint))
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		o.Processors = append(slices.Clone(o.Processors), sdktrace.NewBatchSpanProcessor(exporter))
	}
	if len(o.Processors) > 0 {
		traced := []sdktrace.TracerProviderOption{
			sdktrace.WithResource(about), sdktrace.WithSampler(newSampler(o.SampleRatio)),
		}
		for _, p := range o.Processors {
			traced = append(traced, sdktrace.WithSpanProcessor(p))
		}
		tracers := sdktrace.NewTracerProvider(traced...)
		t.Tracers, t.shutdown = tracers, append(t.shutdown, tracers.Shutdown)
	}
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(t.Registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	t.shutdown = append(t.shutdown, meters.Shutdown)
	t.handler = calls{otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(t.Tracers), otelgrpc.WithMeterProvider(meters),
		otelgrpc.WithPropagators(propagation.TraceContext{}))}
	return t, nil
}

// RPC observes every call of a gRPC server: its span, and rpc_server_* metrics.
func (t *Telemetry) RPC() stats.Handler { return t.handler }

// Shutdown sends the spans that wait, until ctx ends.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, end := range t.shutdown {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}
