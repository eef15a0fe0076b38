package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/admin"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/telemetry"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	serving    = healthpb.HealthCheckResponse_SERVING
	notServing = healthpb.HealthCheckResponse_NOT_SERVING
)

// watched makes a replica that says how it is, soon.
func watched(t *testing.T, into *string) func(*app.Config) {
	t.Helper()
	observed, err := telemetry.New(t.Context(), telemetry.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observed.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	listener := listen(t, "127.0.0.1:0")
	*into = "http://" + listener.Addr().String()
	return func(c *app.Config) {
		c.Telemetry, c.Admin = observed, listener
		c.ProbeInterval, c.CensusInterval = 20*time.Millisecond, 50*time.Millisecond
	}
}

// page is what the admin listener answers.
func page(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// failing are the checks that do not hold, with their reasons, in one line.
func failing(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Ready  bool
		Checks []admin.Check
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var lines []string
	for _, c := range answer.Checks {
		if !c.OK {
			lines = append(lines, c.Name+": "+c.Reason)
		}
	}
	if answer.Ready != (len(lines) == 0) || len(answer.Checks) != 5 {
		t.Errorf("not what the checks say: %s", body)
	}
	return strings.Join(lines, "; ")
}

// health is what the health service says of each service.
func health(t *testing.T, r *apptest.Replica) map[string]healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	all := map[string]healthpb.HealthCheckResponse_ServingStatus{}
	for _, name := range []string{
		"", oncewardv1.ActionService_ServiceDesc.ServiceName, oncewardv1.ReviewService_ServiceDesc.ServiceName, oncewardv1.AuditService_ServiceDesc.ServiceName,
		oncewardv1.StatsService_ServiceDesc.ServiceName, oncewardv1.PolicyService_ServiceDesc.ServiceName, oncewardv1.CatalogService_ServiceDesc.ServiceName,
	} {
		resp, err := healthpb.NewHealthClient(r.Conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		all[name] = resp.GetStatus()
	}
	return all
}

// wantHealth fails the test unless all services are in a state, and the catalogue in
// another one.
func wantHealth(t *testing.T, r *apptest.Replica, all, catalog healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	got := health(t, r)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		want := all
		if name == oncewardv1.CatalogService_ServiceDesc.ServiceName {
			want = catalog
		}
		if got[name] != want {
			t.Errorf("health of %q is %s, want %s", name, got[name], want)
		}
	}
}

// shown waits until the metrics have all the lines and none of the names.
func shown(t *testing.T, url string, lines, names []string) {
	t.Helper()
	var body string
	apptest.Eventually(t, func() bool {
		_, body = page(t, url+"/metrics")
		for _, line := range lines {
			if !strings.Contains(body, line+"\n") {
				return false
			}
		}
		return !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(body, name) })
	}, func() string {
		return strings.Join(lines, "; ") + " and none of " + strings.Join(names, "; ") + " in\n" + ours(body)
	})
}

func ours(body string) string {
	var lines []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "onceward_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// The ledger goes and comes back: readiness, health checks and metrics say so, and
// the process lives.
func TestLedgerAwayIsSeen(t *testing.T) {
	t.Parallel()
	w, server := ownServer(t)
	var url string
	r := w.Start(t, watched(t, &url))
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.AskIn(t, r, refund().request("before"), succeeded)
	forRequest(w, "held", heldAfter(gate))
	held := make(chan answer, 1)
	go func() {
		resp, err := w.Try(t.Context(), r, invoice().request("held"))
		held <- answer{resp, err}
	}()
	await(t, "the request at the provider", gate.Reached())

	open := []string{`onceward_operations{action_type="email.invoice.send",state="running"} 1`, `onceward_overdue_operations{state="running"} 0`,
		`onceward_oldest_operation_age_seconds{state="unknown"} 0`, `onceward_kill_switches{scope="tenant"} 0`}
	shown(t, url, append(open, "onceward_ledger_up 1", `onceward_ledger_batch_rows_count{lane="writes"} 3`, `onceward_ledger_connections{state="limit"} 17`,
		"onceward_ledger_errors_total 0"), nil)
	if code, body := page(t, url+"/readyz"); code != http.StatusOK || failing(t, body) != "" {
		t.Errorf("readyz: %d %s", code, body)
	}
	wantHealth(t, r, serving, serving)
	watch, err := healthpb.NewHealthClient(r.Conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: oncewardv1.ActionService_ServiceDesc.ServiceName})
	if err != nil {
		t.Fatal(err)
	}
	wantNext(t, watch, serving)

	server.Kill(t)
	wantNext(t, watch, notServing)
	wantHealth(t, r, notServing, serving)
	if code, body := page(t, url+"/readyz"); code != http.StatusServiceUnavailable || failing(t, body) != "ledger: it does not answer; schema: not known now" {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, _ := page(t, url+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d: a process is not restarted because its ledger is away", code)
	}
	// Absent, not stale.
	shown(t, url, []string{"onceward_ledger_up 0"}, []string{"onceward_operations{", "onceward_overdue_operations{", "onceward_kill_switches{", "onceward_ledger_errors_total 0\n"})

	server.Start(t)
	wantNext(t, watch, serving)
	wantHealth(t, r, serving, serving)
	shown(t, url, append(open, "onceward_ledger_up 1"), nil)
	if code, body := page(t, url+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %s", code, body)
	}
	gate.Release()
	got := <-held
	wantOneReceipt(t, w, []answer{got}, 1)
	wantSound(t, w)
}

// wantNext waits for the next news of a watch.
func wantNext(t *testing.T, watch healthpb.Health_WatchClient, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	resp, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetStatus(); got != want {
		t.Fatalf("the watch says %s, want %s", got, want)
	}
}

// A process that is told to stop says so before it stops, and serves meanwhile.
func TestNotReadyBeforeItStops(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	var url string
	change := watched(t, &url)
	r := w.Start(t, func(c *app.Config) { change(c); c.DrainDelay = time.Second })
	watch, err := healthpb.NewHealthClient(r.Conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	wantNext(t, watch, serving)
	began, stopped := time.Now(), make(chan struct{})
	go func() { defer close(stopped); r.Stop() }()
	wantNext(t, watch, notServing)
	if code, body := page(t, url+"/readyz"); code != http.StatusServiceUnavailable || failing(t, body) != "staying: the process is shutting down" {
		t.Errorf("readyz: %d %s", code, body)
	}
	wantHealth(t, r, notServing, notServing)
	w.AskIn(t, r, refund().request("late"), succeeded)
	// Nobody who watches holds up the end.
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	await(t, "the end", stopped)
	if took := time.Since(began); took > apptest.Patience/4 {
		t.Errorf("the end took %s", took)
	}
	if code, _ := page(t, url+"/healthz"); code != 0 {
		t.Errorf("healthz after the end: %d", code)
	}
	wantSound(t, w)
}

// Metrics are for those who run it.
func TestLaw10_AdminBeyondLoopback(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	certificate, roots := selfSigned(t)
	const token = "0123456789abcdef"
	for _, c := range []struct {
		what       string
		tls, token bool
		profiles   bool
		want       error
	}{
		{"plain text", false, true, false, app.ErrPlainText},
		{"no token", true, false, false, app.ErrOpenAdmin},
		{"TLS and a token", true, true, true, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			config := configOf(t, w, w.SecretsDir)
			config.Admin = listen(t, "0.0.0.0:0")
			_, port, err := net.SplitHostPort(config.Admin.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if c.tls {
				config.AdminTLS = serverTLS(certificate)
			}
			if c.token {
				config.AdminToken = token
			}
			config.AdminProfiles = c.profiles
			if config.Telemetry, err = telemetry.New(t.Context(), telemetry.Options{}); err != nil {
				t.Fatal(err)
			}
			service, err := app.New(t.Context(), config)
			if !errors.Is(err, c.want) {
				t.Fatalf("starting: %v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			done := make(chan error, 1)
			go func() { done <- service.Run(ctx) }()
			t.Cleanup(func() {
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
			client := clientOf(roots)
			for path, want := range map[string][2]int{ // without the token, and with it
				"/readyz": {200, 200}, "/healthz": {200, 200}, "/metrics": {401, 200}, "/debug/pprof/heap": {401, 200},
				"/debug/pprof/cmdline": {404, 404}, "/": {404, 404},
			} {
				for i, header := range []string{"", "Bearer " + token} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					if header != "" {
						req.Header.Set("Authorization", header)
					}
					resp, err := client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					_ = resp.Body.Close()
					if resp.StatusCode != want[i] {
						t.Errorf("%s with %q: %d, want %d", path, header, resp.StatusCode, want[i])
					}
				}
			}
		})
	}
}

func serverTLS(certificate tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
}

func clientOf(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
}
