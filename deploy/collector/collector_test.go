package collector

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	file     = "../otel-collector.yaml"
	patience = 30 * time.Second
)

// TestDefaults checks the file as it is without any variable, and that a word
// which the collector does not know would be refused.
func TestDefaults(t *testing.T) {
	if err := newCollector(t, "file:"+file).DryRun(t.Context()); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	wrong := "yaml:exporters::otlp_grpc/traces::sending_queue::no_such_word: 1"
	if err := newCollector(t, "file:"+file, wrong).DryRun(t.Context()); err == nil {
		t.Error("a word that no component knows passed")
	}
}

// TestSpanReachesStore starts the collector on the file, sends it one span as
// Onceward would, and waits until a store has it.
func TestSpanReachesStore(t *testing.T) {
	store := startStore(t)
	otlp, health := freeAddress(t), freeAddress(t)
	_, metrics, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTLP_LISTEN", otlp)
	t.Setenv("HEALTH_LISTEN", health)
	t.Setenv("METRICS_HOST", "127.0.0.1")
	t.Setenv("METRICS_PORT", metrics)
	t.Setenv("TRACES_ENDPOINT", store.address)
	t.Setenv("TRACES_INSECURE", "true")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := newCollector(t, "file:"+file)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		c.Shutdown()
		if err := <-ended; err != nil {
			t.Errorf("the collector ended with %v", err)
		}
	})

	waitFor(ctx, t, "http://"+health, "")
	conn, err := grpc.NewClient(otlp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := ptraceotlp.NewExportRequest()
	spans := request.Traces().ResourceSpans().AppendEmpty()
	spans.Resource().Attributes().PutStr("service.name", "onceward")
	span := spans.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetName("attempt")
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{2})
	if _, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, request, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("the collector refused a span: %v", err)
	}
	select {
	case got := <-store.spans:
		if got != "attempt" {
			t.Errorf("the store got the span %q, want %q", got, "attempt")
		}
	case err := <-ended:
		ended <- err
		t.Fatalf("the collector ended before the span reached the store: %v", err)
	case <-ctx.Done():
		t.Fatal("the span did not reach the store")
	}
	waitFor(ctx, t, "http://127.0.0.1:"+metrics+"/metrics", "otelcol_receiver_accepted_spans")
}

// newCollector makes a collector with the components that the file names and no
// others: what it lacks, the file may not use.
func newCollector(t *testing.T, uris ...string) *otelcol.Collector {
	t.Helper()
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories:               factories,
		BuildInfo:               component.BuildInfo{Command: "otelcol", Version: "test"},
		DisableGracefulShutdown: true,
		SkipSettingGRPCLogger:   true,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              uris,
			DefaultScheme:     "env",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory(), yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func factories() (otelcol.Factories, error) {
	var f otelcol.Factories
	var err error
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	if f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](memorylimiterprocessor.NewFactory()); err != nil {
		return f, err
	}
	if f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory()); err != nil {
		return f, err
	}
	f.Telemetry = otelconftelemetry.NewFactory()
	f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](healthcheckextension.NewFactory())
	return f, err
}

// store takes traces as Jaeger and Tempo do, and tells the names of spans.
type store struct {
	ptraceotlp.UnimplementedGRPCServer
	address string
	spans   chan string
}

func startStore(t *testing.T) *store {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &store{address: listener.Addr().String(), spans: make(chan string, 16)}
	server := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s
}

// Export takes one batch.
func (s *store) Export(_ context.Context, request ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	for _, resource := range request.Traces().ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				s.spans <- span.Name()
			}
		}
	}
	return ptraceotlp.NewExportResponse(), nil
}

// freeAddress finds an address for a listener that cannot be told to choose one.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// waitFor asks url until the answer is 200 and has want.
func waitFor(ctx context.Context, t *testing.T, url, want string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if body, ok := get(ctx, t, url); ok && strings.Contains(body, want) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not answer 200 with %q", url, want)
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, t *testing.T, url string) (body string, ok bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", false
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	return string(raw), err == nil && response.StatusCode == http.StatusOK
}
