package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/yamlfiles"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/policy/cases"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type policyCmd struct {
	Check policyCheckCmd `cmd:"" help:"Check files with policies."`
	Test  policyTestCmd  `cmd:"" help:"Decide tables of requests by a policy, and say what is decided otherwise than wanted."`
	Show  policyShowCmd  `cmd:"" help:"Show the policy that is in force."`
}

func (*policyCmd) Help() string {
	return `What each tenant's agents may do, how much, and with whose yes.

Example:
  onceward policy check ./tenants --config=./actions
  onceward policy test ./tenants/acme_test.yaml
  onceward policy show`
}

// known says which action types there are.
type known struct {
	Config []string `type:"existingpath" placeholder:"PATH" help:"Files and folders with providers and actions: what policies name must be there. Can be given several times."`
	Demo   bool     `help:"The demo's action types are there, as in onceward dev."`
}

// specs are the action types of the flags and of the binary. Open: there may be
// others, of providers that describe theirs when they run.
func (k known) specs(o Options) (specs []actions.Spec, open bool, err error) {
	for _, a := range o.Adapters {
		specs = append(specs, a.Spec())
	}
	if k.Demo {
		adapters, err := demo.New(demo.Options{ProviderURL: "http://127.0.0.1:1", Token: "none"})
		if err != nil {
			return nil, false, err
		}
		for _, a := range adapters {
			specs = append(specs, a.Spec())
		}
	}
	if len(k.Config) == 0 {
		return specs, false, nil
	}
	set, err := definition.Load(k.Config...)
	if err != nil {
		return nil, false, err
	}
	if err := checkDefinitions(set); err != nil {
		return nil, false, err
	}
	found, err := declared.Specs(set)
	if err != nil {
		return nil, false, err
	}
	for _, p := range set.Providers {
		open = open || p.Adapter == definition.AdapterGRPC
	}
	return append(specs, found...), open, nil
}

// given reports whether it is known which action types there are.
func (k known) given() bool { return len(k.Config) > 0 || k.Demo }

type policyCheckCmd struct {
	known
	Paths []string `arg:"" help:"Files and folders with policies."`
}

func (*policyCheckCmd) Help() string {
	return `Reads the files as the service does. Every fault comes with its file, line and field, and the
exit code is not zero. With --config (or --demo) the action types that policies name must
be there; without, that is not looked at.

Example:
  onceward policy check ./tenants --config=./actions
  onceward policy check --demo examples/policies`
}

// Run checks policies.
func (c *policyCheckCmd) Run(s streams, o Options) error {
	files, err := yamlfiles.Read(c.Paths...)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no .yaml files there", strings.Join(c.Paths, ", "))
	}
	policies, err := policy.Load(files)
	if err != nil {
		return faulty(s, err)
	}
	if c.given() {
		specs, open, err := c.specs(o)
		if err != nil {
			return faulty(s, err)
		}
		faults := policies.Check(specs)
		if len(faults) > 0 && !open {
			return faulty(s, &definition.FaultsError{Faults: faults})
		}
		for _, f := range faults { // a provider that describes itself may have it
			fmt.Fprintf(s.err, "%s (unless a gRPC provider describes it)\n", f)
		}
	}
	for _, tenant := range policies.Tenants() {
		fmt.Fprintf(s.out, "%s: version %s\n", tenant, policies.For(tenant).Version())
	}
	n := len(policies.Tenants())
	what := "policy"
	if n != 1 {
		what = "policies"
	}
	fmt.Fprintf(s.out, "%d %s: nothing is wrong\n", n, what)
	return nil
}

type policyTestCmd struct {
	known
	Files []string `arg:"" help:"Files with tables of cases; each names its policy."`
	Show  bool     `help:"Print what is decided about every case."`
}

func (*policyTestCmd) Help() string {
	return `Decides every case of a table (kind: policy_test) by the policy that it names, as the service
would, and prints what is decided otherwise than wanted. The exit code is 1 if anything is.
Nothing is sent or recorded, and no service is needed. With --config (or --demo) arguments must
fit the schemas of their action types.

Example:
  onceward policy test examples/policies/acme_test.yaml
  onceward policy test --config=./actions --show tenants/acme_test.yaml`
}

// Run runs the tables.
func (c *policyTestCmd) Run(s streams, o Options) error {
	specs, _, err := c.specs(o)
	if err != nil {
		return faulty(s, err)
	}
	failed := 0
	for _, name := range c.Files {
		results, err := runTable(name, specs)
		if err != nil {
			return faulty(s, err)
		}
		wrong := 0
		for _, r := range results {
			if len(r.Differences) > 0 {
				wrong++
			}
			c.print(s, r)
		}
		fmt.Fprintf(s.out, "%s: %s, %d not as wanted\n", name, counted(len(results), "case"), wrong)
		failed += wrong
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return errors.New("1 case is decided otherwise than wanted")
	}
	return fmt.Errorf("%d cases are decided otherwise than wanted", failed)
}

func (c *policyTestCmd) print(s streams, r cases.Result) {
	if len(r.Differences) > 0 {
		fmt.Fprintf(s.out, "%s: %s\n", r.Place, r.Name)
		for _, d := range r.Differences {
			fmt.Fprintf(s.out, "  %s\n", d)
		}
		return
	}
	if c.Show {
		fmt.Fprintf(s.out, "%s: %s\n  %s by %s: %s\n", r.Place, r.Name, r.Decision.Effect, r.Decision.Rule, r.Decision.Reason)
	}
}

// runTable runs the table of a file.
func runTable(name string, specs []actions.Spec) ([]cases.Result, error) {
	data, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	table, err := cases.Read(name, data)
	if err != nil {
		return nil, err
	}
	of := filepath.FromSlash(table.File.Policy)
	if !filepath.IsAbs(of) {
		of = filepath.Join(filepath.Dir(name), of)
	}
	text, err := readBounded(of)
	if err != nil {
		return nil, fmt.Errorf("%s: policy: %w", name, err)
	}
	policies, err := policy.Load(map[string][]byte{of: text})
	if err != nil {
		return nil, err
	}
	return table.Run(policies, specs)
}

// readBounded reads one file as the service does.
func readBounded(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s: is a folder, want a file", name)
	}
	files, err := yamlfiles.Read(name)
	if err != nil {
		return nil, err
	}
	return files[filepath.Clean(name)], nil
}

type policyShowCmd struct {
	client
}

func (*policyShowCmd) Help() string {
	return `Shows the policy of the credential's tenant as the service has it now: its version, the stage of
each action type, and the file. It wants the role admin, auditor or reviewer.

Example:
  onceward policy show
  onceward policy show --json`
}

// Run shows the policy.
func (c *policyShowCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asReviewer)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewPolicyServiceClient(conn).GetPolicy(ctx, &oncewardv1.GetPolicyRequest{})
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) { printPolicy(w, resp) })
}

func printPolicy(w io.Writer, p *oncewardv1.GetPolicyResponse) {
	version := p.GetVersion()
	if version == "" {
		version = "none: every request is refused"
	}
	fmt.Fprintf(w, "version  %s\n\n", version)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACTION TYPE\tSTAGE")
	stages := slices.Clone(p.GetStages())
	slices.SortFunc(stages, func(a, b *oncewardv1.ActionTypeStage) int {
		return strings.Compare(a.GetActionType(), b.GetActionType())
	})
	for _, stage := range stages {
		fmt.Fprintf(table, "%s\t%s\n", stage.GetActionType(), lower(stage.GetStage().String(), "STAGE_"))
	}
	_ = table.Flush() // it writes to w, whose errors no line here checks
	if p.GetYaml() != "" {
		fmt.Fprintf(w, "\n%s", p.GetYaml())
	}
}
