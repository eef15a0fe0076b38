package command

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// run is the command line in this process, with nothing in the environment.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "ONCEWARD_") || strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "") // so that it is put back after the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	var out, err bytes.Buffer
	code = Main(args, Options{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err})
	return code, out.String(), err.String()
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"-h"}} {
		code, stdout, stderr := run(t, args...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "Start with: onceward dev") {
			t.Errorf("onceward %v: exit code %d, output %q, errors %q", args, code, stdout, stderr)
		}
	}
}

func TestEveryCommandShowsAnExample(t *testing.T) {
	for _, node := range commands(t) {
		path := strings.Fields(node.Path())
		t.Run(strings.Join(path, "_"), func(t *testing.T) {
			code, stdout, stderr := run(t, append(path, "--help")...)
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, errors %q", code, stderr)
			}
			if !strings.Contains(stdout, "Example") || !strings.Contains(stdout, "\n    onceward "+path[0]) {
				t.Errorf("no example of onceward %s in: %s", path, stdout)
			}
		})
	}
}

// TestWrongUsage: exit code 2 and one line that says what is wrong and where
// the help is.
func TestWrongUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"no-such-command"}, `no-such-command.*\(see onceward --help\)`},
		{[]string{"--no-such-flag"}, `unknown flag --no-such-flag`},
		{[]string{"list", "--no-such-flag"}, `unknown flag --no-such-flag.*\(see onceward list --help\)`},
		{[]string{"keys", "create"}, `expected "<tenant>"|missing flags.*\(see onceward keys create --help\)`},
		{[]string{"keys", "create", "acme", "--actor=a", "--role=owner", "--database-url=postgres://x"}, `--role must be one of`},
		{[]string{"keys", "create", "acme", "--actor=a", "--role=agent", "--expires=-1h", "--database-url=postgres://x"}, `"-1h" is no time: want one such as 36h or 7d`},
		{[]string{"keys", "create", "acme", "--actor=a", "--role=agent", "--role=admin", "--database-url=postgres://x"}, `--role: the roles agent and admin are not for one credential`},
		{[]string{"keys", "rotate", "acme", "id", "--overlap=-1h", "--database-url=postgres://x"}, `--overlap cannot be negative`},
		{[]string{"list", "--state=lost"}, `--state must be one of`},
		{[]string{"request", "payments.refund.create"}, `expected "<arguments>"`},
		{[]string{"request", "a.b", "{}", "--wait=soon"}, `--wait`},
		{[]string{"stats", "--since=soon"}, `--since.*want one such as 36h or 7d`},
		{[]string{"stats", "--since=0d"}, `--since.*want one such as 36h or 7d`},
		{[]string{"observe", "report", "--since=-7d", "--database-url=postgres://x"}, `--since.*want one such as 36h or 7d`},
		{[]string{"observe", "report", "--operation-time=0s", "--database-url=postgres://x"}, `--operation-time must be above zero`},
		{[]string{"get"}, `an operation id or --key`},
		{[]string{"doctor", "--replicas=0", "--database-url=postgres://x"}, `--replicas must be at least 1`},
		{[]string{"get", "id", "--key=k"}, `an operation id or --key`},
		{[]string{"stop"}, `missing flags: --reason`},
		{[]string{"stop", "--reason= "}, `--reason: say why`},
		{[]string{"stop", "--reason=x", "--action-type=a.b", "--provider=p"}, `--action-type and --provider cannot be used together`},
		{[]string{"stop", "--reason=x", "--tenant=acme"}, `want --database-url`},
		{[]string{"stops", "--tenant=acme", "--all-tenants"}, `cannot be used together`},
		{[]string{"restore", "begin", "--lost-from=yesterday", "--lost-until=2026-11-30T09:41:00Z", "--database-url=x"}, `--lost-from.*want one such as 2026-`},
		{[]string{"restore", "begin", "--lost-from=2026-11-30T09:41:00Z", "--lost-until=2026-11-30T02:00:00Z", "--database-url=x"}, `--lost-until is before --lost-from`},
		{[]string{"restore", "begin", "--lost-from=2026-11-30T09:41:00Z", "--lost-until=2999-11-30T02:00:00Z", "--database-url=x"}, `--lost-until is in the future`},
		{[]string{"restore", "clear", "--reason=x", "--database-url=x"}, `--tenant or --action-type`},
		{[]string{"restore", "clear", "--reason= ", "--tenant=acme", "--database-url=x"}, `--reason: say why`},
		{[]string{"restore", "end", "--reason= ", "--database-url=x"}, `--reason: say why`},
		{[]string{"audit", "verify"}, `--database-url or --exported`},
		{[]string{"resolve", "id", "perhaps"}, `must be one of`},
		{[]string{"migrate"}, `missing flags: --database-url=STRING; the environment may say it too: ONCEWARD_DATABASE_URL for --database-url \(see onceward migrate --help\)`},
		{[]string{"serve", "--database-url=x"}, `missing flags: --secrets-dir=.*: ONCEWARD_SECRETS_DIR for --secrets-dir \(see`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=."}, `say what agents may do: --policies=PATH .*--allow-all`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--policies=."}, `contradict each other`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--admin-pprof"}, `want --admin-listen`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--admin-listen=127.0.0.1:0", "--admin-pprof"}, `--admin-pprof wants --admin-token-file`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--drain-delay=-1s"}, `--drain-delay: want a time`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--trace-sample-ratio=2"}, `--trace-sample-ratio: want a share from 0 to 1`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--trace-sample-ratio=NaN"}, `--trace-sample-ratio: want a share from 0 to 1`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--metrics-tenants=0"}, `--metrics-tenants: want 1 at least`},
		{[]string{"serve", "--database-url=x", "--secrets-dir=.", "--allow-all", "--otlp-endpoint=collector:4317"}, `--otlp-endpoint: want a URL such as`},
		{[]string{"dev", "--otlp-endpoint=collector:4317"}, `--otlp-endpoint: want a URL such as`},
		{[]string{"list", "--ca-cert=/no/such/file"}, `--ca-cert.*no such file`},
	} {
		t.Run(strings.Join(tt.args, "_"), func(t *testing.T) {
			code, stdout, stderr := run(t, tt.args...)
			if code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			checkErrorLine(t.Fatalf, stdout, stderr, regexp.MustCompile(tt.want))
		})
	}
}

// TestNoDatabase: an address without a Postgres is one line without the
// password.
func TestNoDatabase(t *testing.T) {
	for _, args := range [][]string{{"migrate"}, {"tenants", "create", "acme"}, {"keys", "list", "acme"}} {
		code, stdout, stderr := run(t, append(args, "--database-url=postgres://owner:hunter2@127.0.0.1:1/onceward?sslmode=disable")...)
		if code != exitError {
			t.Errorf("%v: exit code %d, want %d", args, code, exitError)
		}
		checkErrorLine(t.Fatalf, stdout, stderr, regexp.MustCompile(`127\.0\.0\.1:1.*connection refused`))
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("%v: the password is shown: %s", args, stderr)
		}
	}
}

// TestEnvironment holds which flags the environment can set: configuration, and
// nothing that changes what a single command does.
func TestEnvironment(t *testing.T) {
	client := "ONCEWARD_ADDRESS ONCEWARD_API_KEY ONCEWARD_CA_CERT ONCEWARD_DATA_DIR"
	want := map[string]string{
		"dev": "ONCEWARD_ADMIN_LISTEN ONCEWARD_CONFIG ONCEWARD_DATABASE_URL ONCEWARD_DATA_DIR ONCEWARD_LISTEN ONCEWARD_OTLP_ENDPOINT ONCEWARD_POLICIES " +
			"OTEL_EXPORTER_OTLP_ENDPOINT",
		"serve": "ONCEWARD_ADMIN_LISTEN ONCEWARD_ADMIN_PPROF ONCEWARD_ADMIN_TOKEN_FILE ONCEWARD_ALLOW_ALL ONCEWARD_CLIENT_CA ONCEWARD_CONFIG ONCEWARD_DATABASE_URL ONCEWARD_DEMO_ATTEMPT_TIMEOUT ONCEWARD_DEMO_PROVIDER_TOKEN_FILE " +
			"ONCEWARD_DEMO_PROVIDER_URL ONCEWARD_DEMO_SETTLE_TIME ONCEWARD_DRAIN_DELAY ONCEWARD_HTTP_LISTEN ONCEWARD_IDENTITY ONCEWARD_ISSUER ONCEWARD_LEASE_GRACE ONCEWARD_LISTEN " +
			"ONCEWARD_LOG_FORMAT ONCEWARD_LOG_LEVEL ONCEWARD_MAX_CONNECTIONS ONCEWARD_MAX_IN_FLIGHT ONCEWARD_METRICS_TENANTS ONCEWARD_OTLP_ENDPOINT ONCEWARD_POLICIES ONCEWARD_RECONCILE_INTERVAL ONCEWARD_RECONCILE_LEASE " +
			"ONCEWARD_RELOAD_INTERVAL " +
			"ONCEWARD_ROLES ONCEWARD_SECRETS_DIR ONCEWARD_TLS_CERT ONCEWARD_TLS_KEY ONCEWARD_TRACE_SAMPLE_RATIO ONCEWARD_WEBHOOKS_LISTEN ONCEWARD_WEBHOOKS_URL " +
			"OTEL_EXPORTER_OTLP_ENDPOINT",
		"request": client, "get": client, "list": client, "watch": client, "cancel": client,
		"actions": client, "reviews": client, "resolve": client, "stats": client, "receipt get": client, "policy show": client,
		"audit list": client,
	}
	for _, owner := range []string{"migrate", "tenants create", "tenants list", "tenants enable", "tenants disable", "keys create", "keys list", "keys revoke",
		"keys rotate", "restore begin", "restore status", "restore clear", "restore end", "audit partitions", "audit export", "audit drop", "audit verify", "observe report"} {
		want[owner] = "ONCEWARD_DATABASE_URL"
	}
	for _, service := range []string{"guard list", "guard resolve"} {
		want[service] = "ONCEWARD_GUARD_DATABASE_URL"
	}
	for _, either := range []string{"stop", "resume", "stops"} {
		want[either] = "ONCEWARD_ADDRESS ONCEWARD_API_KEY ONCEWARD_CA_CERT ONCEWARD_DATABASE_URL ONCEWARD_DATA_DIR"
	}
	want["doctor"] = "ONCEWARD_CONFIG ONCEWARD_DATABASE_URL ONCEWARD_IDENTITY ONCEWARD_LEASE_GRACE ONCEWARD_POLICIES ONCEWARD_SECRETS_DIR"
	got := map[string]string{}
	for _, node := range commands(t) {
		var names []string
		for _, flag := range node.Flags {
			for _, name := range flag.Envs {
				names = append(names, name)
				// Names of OpenTelemetry come beside ours: collectors set them.
				derived := "ONCEWARD_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
				if name != derived && !(strings.HasPrefix(name, "OTEL_") && flag.Envs[0] == derived) {
					t.Errorf("onceward %s: flag --%s is %s in the environment, want %s", node.Path(), flag.Name, name, derived)
				}
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			got[node.Path()] = strings.Join(names, " ")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if got[path] != want[path] {
			t.Errorf("onceward %s reads %q, want %q", path, got[path], want[path])
		}
	}
	for path := range want {
		if got[path] == "" {
			t.Errorf("onceward %s reads nothing from the environment, want %q", path, want[path])
		}
	}
}

// TestServeTakesEveryFlagFromTheEnvironment is what its help promises.
func TestServeTakesEveryFlagFromTheEnvironment(t *testing.T) {
	for _, node := range commands(t) {
		if node.Path() != "serve" {
			continue
		}
		for _, flag := range node.Flags {
			if flag.Name != "help" && len(flag.Envs) == 0 {
				t.Errorf("--%s cannot be given in the environment", flag.Name)
			}
		}
		return
	}
	t.Fatal("no command serve")
}

// TestComposeFile holds that the variables in docker-compose.yml are ones that
// onceward dev reads.
func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, node := range commands(t) {
		for _, flag := range node.Flags {
			for _, name := range flag.Envs {
				known[name] = known[name] || node.Path() == "dev"
			}
		}
	}
	names := regexp.MustCompile(`ONCEWARD_[A-Z_]+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Error("no variables found")
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("docker-compose.yml sets %s, which onceward dev does not read", name)
		}
	}
}

// commands are all nodes of the command line that can be asked for help.
func commands(t *testing.T) []*kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("onceward"))
	if err != nil {
		t.Fatal(fmt.Errorf("the command line is malformed: %w", err))
	}
	var all []*kong.Node
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		for _, child := range n.Children {
			all = append(all, child)
			walk(child)
		}
	}
	walk(parser.Model.Node)
	return all
}
