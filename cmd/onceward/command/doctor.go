package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/internal/doctor"
	"github.com/onceward/onceward/internal/identity"
	"github.com/onceward/onceward/internal/pgurl"
	"github.com/onceward/onceward/internal/policies"
	"github.com/onceward/onceward/internal/providers"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/migrations"
)

type doctorCmd struct {
	DatabaseURL string        `env:"ONCEWARD_DATABASE_URL" name:"database-url" required:"" help:"Postgres URL of the login that serves, as serve takes it."`
	SecretsDir  string        `env:"ONCEWARD_SECRETS_DIR" type:"path" help:"Folder of secrets, as serve takes it. Default: it is not looked at."`
	Config      []string      `env:"ONCEWARD_CONFIG" type:"existingpath" placeholder:"PATH" help:"Files and folders with providers and actions, as serve takes them. Default: contracts are not looked at."`
	Policies    []string      `env:"ONCEWARD_POLICIES" type:"existingpath" placeholder:"PATH" help:"Files and folders with policies, as serve takes them. Default: they are not looked at."`
	Identity    string        `env:"ONCEWARD_IDENTITY" type:"existingfile" placeholder:"FILE" help:"Issuers of tokens and rules for certificates, as serve takes them."`
	LeaseGrace  time.Duration `env:"ONCEWARD_LEASE_GRACE" default:"15s" help:"As serve takes it."`
	Replicas    int           `default:"3" help:"Processes that will share the ledger."`
	Callers     span          `name:"callers-retry" default:"24h" placeholder:"TIME" help:"The longest that a planner, or a queue before it, sends the same request again; as in 36h or 7d."`
	Timeout     time.Duration `default:"30s" help:"Time for all of it."`
	JSON        bool          `name:"json" help:"Print JSON: {\"level\": …, \"findings\": […]}."`
}

func (*doctorCmd) Help() string {
	return `Example:
  onceward doctor --database-url=postgres://onceward_app@db/onceward --secrets-dir=./secrets \
      --config=./actions --policies=./tenants --replicas=3

Looks at an installation before it serves, and at any time after: the database and the settings that endanger what it
acknowledged (synchronous_commit, fsync, standbys), clocks, connections, schema, login, secrets, policies, and contracts
whose windows are shorter than the retries that rely on them. It changes nothing. In the environment of a replica it
needs no flags.

Each line is ok, warn or FAIL, and says what to do. The exit code is 1 when anything is FAIL.`
}

// Run looks at everything that it was told of.
func (c *doctorCmd) Run(ctx context.Context, s streams, o Options) error {
	if c.Replicas < 1 || c.LeaseGrace <= 0 || c.Timeout <= 0 {
		return fmt.Errorf("%w: --replicas must be at least 1, --lease-grace and --timeout above 0", errUsage)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	findings, database := c.files(ctx, o)
	found, err := c.database(ctx, database)
	if err != nil {
		return err
	}
	findings = append(found, findings...)
	if c.JSON {
		encoder := json.NewEncoder(s.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(struct {
			Level    doctor.Level     `json:"level"`
			Findings []doctor.Finding `json:"findings"`
		}{doctor.Worst(findings), findings})
		if err != nil {
			return err
		}
	} else {
		printFindings(s.out, findings)
	}
	return verdict(findings)
}

// database asks it.
func (c *doctorCmd) database(ctx context.Context, d doctor.Database) ([]doctor.Finding, error) {
	var err error
	if d.Schema, err = migrations.Newest(); err != nil {
		return nil, err
	}
	if d.Connections, err = postgres.Connections(c.DatabaseURL); err != nil {
		return nil, err
	}
	config, err := pgurl.Parse(c.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("--database-url: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return []doctor.Finding{{Check: "postgres", Seen: "no connection: " + oneLine(err), Do: "mend --database-url, or start the database"}}, nil
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	findings, err := d.Look(ctx, conn)
	if err != nil {
		return []doctor.Finding{{Check: "postgres", Seen: "it stopped answering: " + oneLine(err), Do: "look at its log; run this again"}}, nil
	}
	return findings, nil
}

// files reads what the service would, and what the database is compared with.
func (c *doctorCmd) files(ctx context.Context, o Options) (findings []doctor.Finding, d doctor.Database) {
	d.Replicas = c.Replicas
	wrong := func(check string, err error) {
		findings = append(findings, doctor.Finding{Check: check, Seen: oneLine(err), Do: "mend it; serve would not start"})
	}
	if c.SecretsDir != "" {
		if keys, err := secrets.Load(c.SecretsDir); err != nil {
			wrong("secrets", err)
		} else {
			fingerprint := keys.Fingerprint()
			d.Fingerprint = &fingerprint
		}
	}
	if c.Identity != "" {
		if err := identity.Check(c.Identity); err != nil {
			wrong("identity", err)
		}
	}
	if len(c.Config) > 0 || len(o.Adapters) > 0 {
		specs, err := c.specs(ctx, o)
		if err != nil {
			wrong("definitions", err)
		}
		if err == nil || specs != nil {
			findings = append(findings, doctor.Contracts(specs, doctor.Retries{LeaseGrace: c.LeaseGrace, Callers: time.Duration(c.Callers)})...)
		}
	}
	if len(c.Policies) > 0 {
		if p, err := policies.Open(policies.Options{Paths: c.Policies, Log: slog.New(slog.DiscardHandler)}); err != nil {
			wrong("policies", err)
		} else {
			d.PolicyTenants = append([]string{}, p.Tenants()...)
		}
	}
	return findings, d
}

// specs are the action types that the service would have. Where it would not start for
// want of secrets, they are those of the same files without them, beside the error:
// what a contract promises does not depend on a secret.
func (c *doctorCmd) specs(ctx context.Context, o Options) ([]actions.Spec, error) {
	options := providers.Options{Paths: c.Config, Adapters: o.Adapters, Log: slog.New(slog.DiscardHandler)}
	opened, err := providers.Open(ctx, options)
	var faults *definition.FaultsError
	if errors.As(err, &faults) {
		options.Declared.Secret = func(definition.Secret, string) (string, error) { return "", errNoSecrets }
		var unread error
		if opened, unread = providers.Open(ctx, options); unread != nil {
			return nil, err // the files themselves are wrong, or a database of theirs is needed
		}
	} else if err != nil {
		return nil, err
	}
	defer opened.Close()
	return specsOf(opened.Registry()), err
}

// errNoSecrets is in place of each secret where only contracts are read.
var errNoSecrets = errors.New("secrets are not read")

// printFindings writes a line for each, and what to do below it.
func printFindings(w io.Writer, findings []doctor.Finding) {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	for _, f := range findings {
		fmt.Fprintf(w, "%-4s  %-*s  %s\n", f.Level, width, f.Check, f.Seen)
		if f.Do != "" {
			fmt.Fprintf(w, "%-4s  %-*s  -> %s\n", "", width, "", f.Do)
		}
	}
}

// verdict is an error where anything must be mended before money moves.
func verdict(findings []doctor.Finding) error {
	bad := 0
	for _, f := range findings {
		if f.Level == doctor.Fail {
			bad++
		}
	}
	switch bad {
	case 0:
		return nil
	case 1:
		return errors.New("1 check failed")
	default:
		return fmt.Errorf("%d checks failed", bad)
	}
}
