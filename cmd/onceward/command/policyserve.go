package command

import (
	"context"
	"fmt"

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

// openPolicies reads the policies that a process serves with, as o says. What they
// name and the registry does not have is logged.
func openPolicies(o policies.Options, registry *actions.Registry) (inForce, error) {
	o.Specs = func() []actions.Spec { return specsOf(registry) }
	p, err := policies.Open(o)
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
func (f policyFlags) open(o policies.Options, registry *actions.Registry) (inForce, error) {
	if f.AllowAll {
		return allowingAll(), nil
	}
	o.Paths = f.Policies
	return openPolicies(o, registry)
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
