package command

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/admin"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/telemetry"
)

// adminFlags say where a service is asked how it is.
type adminFlags struct {
	AdminListen    string `env:"ONCEWARD_ADMIN_LISTEN" help:"Address for /metrics, /healthz and /readyz; beyond loopback it wants TLS and --admin-token-file. Default: they are not served."`
	AdminTokenFile string `env:"ONCEWARD_ADMIN_TOKEN_FILE" type:"existingfile" placeholder:"FILE" help:"File with the token that /metrics and profiles want: Authorization: Bearer TOKEN."`
	AdminPprof     bool   `env:"ONCEWARD_ADMIN_PPROF" help:"Serve Go's profiles at /debug/pprof/ too; wants --admin-token-file."`

	DrainDelay time.Duration `env:"ONCEWARD_DRAIN_DELAY" default:"0s" help:"How long the service says that it is not ready, before it takes no more calls, when it is told to stop: as long as load balancers need to see it, 5s on Kubernetes."`
}

// check refuses flags that contradict each other.
func (f adminFlags) check() error {
	switch {
	case f.DrainDelay < 0:
		return fmt.Errorf("%w: --drain-delay: want a time such as 5s, or 0s", errUsage)
	case f.AdminListen == "" && (f.AdminTokenFile != "" || f.AdminPprof):
		return fmt.Errorf("%w: --admin-token-file and --admin-pprof want --admin-listen", errUsage)
	case f.AdminPprof && f.AdminTokenFile == "":
		return fmt.Errorf("%w: --admin-pprof wants --admin-token-file: profiles show memory", errUsage)
	}
	return nil
}

// set puts what the flags say into a configuration. The listener comes with the others.
func (f adminFlags) set(config *app.Config) error {
	config.AdminProfiles, config.DrainDelay = f.AdminPprof, f.DrainDelay
	if f.AdminTokenFile == "" {
		return nil
	}
	text, err := os.ReadFile(f.AdminTokenFile)
	if err != nil {
		return fmt.Errorf("--admin-token-file: %w", err)
	}
	config.AdminToken = strings.TrimSpace(string(text))
	if len(config.AdminToken) < admin.MinToken {
		return fmt.Errorf("--admin-token-file: %s: want a token of %d characters at least (openssl rand -hex 32 makes one)", f.AdminTokenFile, admin.MinToken)
	}
	return nil
}

// telemetryFlags say what is told, and to whom.
type telemetryFlags struct {
	OTLPEndpoint     string  `env:"ONCEWARD_OTLP_ENDPOINT,OTEL_EXPORTER_OTLP_ENDPOINT" name:"otlp-endpoint" placeholder:"URL" help:"Receiver of traces over OTLP/gRPC, such as http://127.0.0.1:4317 or https://collector.example:4317. Default: no traces."`
	TraceSampleRatio float64 `env:"ONCEWARD_TRACE_SAMPLE_RATIO" default:"0.1" help:"Share of requests that are traced, from 0 to 1, where the caller has not decided it."`
	MetricsTenants   int     `env:"ONCEWARD_METRICS_TENANTS" default:"100" help:"How many tenants keep their name in metrics; those that come later are counted together, as other."`
}

// check refuses values that make no sense.
func (f telemetryFlags) check() error {
	switch {
	case !(f.TraceSampleRatio >= 0 && f.TraceSampleRatio <= 1): // not a number is neither
		return fmt.Errorf("%w: --trace-sample-ratio: want a share from 0 to 1", errUsage)
	case f.MetricsTenants < 1:
		return fmt.Errorf("%w: --metrics-tenants: want 1 at least", errUsage)
	}
	return checkOTLP(f.OTLPEndpoint)
}

// checkOTLP refuses what is no address of a receiver: it would be tried in vain for ever.
func checkOTLP(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: --otlp-endpoint: want a URL such as http://127.0.0.1:4317 or https://collector.example:4317", errUsage)
	}
	return nil
}

// open makes the telemetry of a process, and what ends it: to be called last.
func (f telemetryFlags) open(ctx context.Context, log *slog.Logger) (*telemetry.Telemetry, func(), error) {
	version, _ := buildVersion()
	instance, err := os.Hostname()
	if err != nil {
		instance = "" // a label that is missing is no reason not to serve
	}
	t, err := telemetry.New(ctx, telemetry.Options{
		Version: version, Instance: instance,
		OTLPEndpoint: f.OTLPEndpoint, SampleRatio: f.TraceSampleRatio, MaxTenants: f.MetricsTenants,
	})
	if err != nil {
		return nil, nil, err
	}
	return t, func() { flushTelemetry(ctx, t, log) }, nil
}

// telemetryGrace is how long spans that wait may take to be sent at the end.
const telemetryGrace = 5 * time.Second

func flushTelemetry(ctx context.Context, t *telemetry.Telemetry, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryGrace)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		log.Warn("the last traces were not sent", "error", err)
	}
}

// buildVersion is of this binary and of Go.
func buildVersion() (version, goVersion string) {
	version, goVersion = "(devel)", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				version += " " + setting.Value
			}
		}
	}
	return version, goVersion
}
