package command

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/policies"
	"github.com/onceward/onceward/policy"
)

// inForce is where a process that serves has its policies from.
type inForce struct {
	// For returns the policy of a tenant that is in force now.
	For func(tenant string) *policy.Policy
	// Watch takes changes over until ctx ends.
	Watch func(ctx context.Context)
}

// allowingAll is for a process without policies.
func allowingAll() inForce {
	return inForce{For: policy.AllowAll().For, Watch: func(context.Context) {}}
}

// openPolicies reads the policies that a process serves with.
func openPolicies(paths []string, registry *actions.Registry, log *slog.Logger, interval time.Duration) (inForce, error) {
	p, err := policies.Open(policies.Options{Paths: paths, Log: log, Interval: interval, Specs: func() []actions.Spec { return specsOf(registry) }})
	if err != nil {
		return inForce{}, err
	}
	return inForce{For: p.For, Watch: p.Watch}, nil
}

func specsOf(registry *actions.Registry) []actions.Spec {
	var specs []actions.Spec
	for _, a := range registry.All() {
		specs = append(specs, a.Spec)
	}
	return specs
}

// policyFlags say which policies a service serves with: that nothing is said is no
// answer.
type policyFlags struct {
	Policies []string `env:"ONCEWARD_POLICIES" type:"existingpath" placeholder:"PATH" help:"Files and folders with the tenants' policies (onceward policy check); can be given several times. Changes are taken over while it runs. A tenant without one may do nothing."`
	AllowAll bool     `env:"ONCEWARD_ALLOW_ALL" help:"Serve without policies: every agent of every tenant may request every action, without budgets."`
}

// open reads them.
func (f policyFlags) open(registry *actions.Registry, log *slog.Logger, interval time.Duration) (inForce, error) {
	if f.AllowAll {
		return allowingAll(), nil
	}
	return openPolicies(f.Policies, registry, log, interval)
}

// check refuses flags that leave it open what agents may do.
func (f policyFlags) check() error {
	switch {
	case f.AllowAll && len(f.Policies) > 0:
		return fmt.Errorf("%w: --allow-all and --policies contradict each other: leave one out", errUsage)
	case !f.AllowAll && len(f.Policies) == 0:
		return fmt.Errorf("%w: say what agents may do: --policies=PATH has the tenants' policies (docs/policies.md), --allow-all serves without any", errUsage)
	}
	return nil
}
