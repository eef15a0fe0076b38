package command

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// switches is what the commands about kill switches share. A tenant's admin goes
// through the API; who operates the installation names tenants, and goes to the
// ledger.
type switches struct {
	client
	Tenant      string `help:"Of this tenant, directly in the ledger; wants --database-url. Default: of the key's tenant, through the API."`
	AllTenants  bool   `help:"Of all tenants, directly in the ledger; wants --database-url."`
	DatabaseURL string `env:"ONCEWARD_DATABASE_URL" name:"database-url" help:"Postgres URL of the role that owns the schema, with --tenant or --all-tenants."`
}

// operating reports whether the ledger is to be used, and for which tenant.
func (c *switches) operating() (tenant string, direct bool, err error) {
	tenant = c.Tenant
	switch {
	case c.Tenant != "" && c.AllTenants:
		return "", false, fmt.Errorf("%w: --tenant and --all-tenants cannot be used together", errUsage)
	case c.AllTenants:
		tenant = ledger.AllTenants
	case c.Tenant == "":
		return "", false, nil
	}
	if c.DatabaseURL == "" {
		return "", false, fmt.Errorf("%w: --tenant and --all-tenants want --database-url", errUsage)
	}
	return tenant, true, nil
}

// target is what is stopped.
type target struct {
	ActionType string `help:"Only this action type."`
	Provider   string `help:"Only the actions of this provider."`
}

func (c *target) check() error {
	if c.ActionType != "" && c.Provider != "" {
		return fmt.Errorf("%w: --action-type and --provider cannot be used together: set one switch for each", errUsage)
	}
	return nil
}

type stopCmd struct {
	switches
	target
	Reason string `required:"" help:"Why; planners that are refused are told."`
}

func (*stopCmd) Help() string {
	return `Example:
  onceward stop --reason='refunds run wild'
  onceward stop --action-type=payments.refund.create --reason='wrong amounts since the release'
  onceward stop --all-tenants --provider=stripe --reason='provider incident' --database-url=postgres://owner@db/onceward

When it returns, nothing of it is claimed any more, on any replica. What is under way ends, and what is unknown is still
resolved without sending anything. Through the API it wants a key with the role admin.`
}

// Run sets the switch.
func (c *stopCmd) Run(ctx context.Context, s streams) error {
	return c.turn(ctx, s, c.target, c.Reason, true)
}

type resumeCmd struct {
	switches
	target
	Reason string `help:"Why it may go on."`
}

func (*resumeCmd) Help() string {
	return `Example:
  onceward resume --action-type=payments.refund.create --reason='fixed in 1.4.2'
  onceward resume --all-tenants --provider=stripe --database-url=postgres://owner@db/onceward

It wants the same target as the stop: onceward stops shows them. What waited is sent when it is due, within half a minute.
Through the API it wants a key with the role admin.`
}

// Run clears the switch.
func (c *resumeCmd) Run(ctx context.Context, s streams) error {
	return c.turn(ctx, s, c.target, c.Reason, false)
}

func (c *switches) turn(ctx context.Context, s streams, t target, reason string, stopped bool) error {
	if err := t.check(); err != nil {
		return err
	}
	if stopped && strings.TrimSpace(reason) == "" {
		return fmt.Errorf("%w: --reason: say why", errUsage)
	}
	tenant, direct, err := c.operating()
	if err != nil {
		return err
	}
	if direct {
		return owner{c.DatabaseURL}.do(ctx, func(store *postgres.Store) error {
			k := ledger.KillSwitch{Tenant: tenant, ActionType: t.ActionType, Provider: t.Provider, Reason: reason, SetBy: operatorName()}
			set, absent := store.SetKillSwitch, fmt.Errorf("no tenant %q", tenant)
			if !stopped {
				set, absent = store.ClearKillSwitch, errors.New("that is not stopped: onceward stops shows what is")
			}
			if err := set(ctx, k); errors.Is(err, ledger.ErrNotFound) {
				return absent
			} else if err != nil {
				return err
			}
			if stopped && (t.ActionType != "" || t.Provider != "") {
				// The ledger does not know what servers can do, and a typo stops nothing.
				fmt.Fprintln(s.err, "The name was not checked: onceward actions has those that a server knows.")
			}
			list, err := store.KillSwitches(ctx, tenant)
			if err != nil {
				return err
			}
			return c.show(s, fromLedger(list))
		})
	}
	ctx, conn, err := c.dial(ctx, asAdmin)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewPolicyServiceClient(conn).SetKillSwitch(ctx, &oncewardv1.SetKillSwitchRequest{
		ActionType: t.ActionType, Provider: t.Provider, Stopped: stopped, Reason: reason,
	})
	if err != nil {
		return err
	}
	return c.show(s, resp.GetKillSwitches())
}

type stopsCmd struct{ switches }

func (*stopsCmd) Help() string {
	return `Example:
  onceward stops
  onceward stops --tenant=acme --database-url=postgres://owner@db/onceward

Through the API it wants a key with the role admin, auditor or reviewer.`
}

// Run lists what is stopped.
func (c *stopsCmd) Run(ctx context.Context, s streams) error {
	tenant, direct, err := c.operating()
	if err != nil {
		return err
	}
	if direct {
		return owner{c.DatabaseURL}.do(ctx, func(store *postgres.Store) error {
			list, err := store.KillSwitches(ctx, tenant)
			if err != nil {
				return err
			}
			return c.show(s, fromLedger(list))
		})
	}
	ctx, conn, err := c.dial(ctx, asAdmin)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewPolicyServiceClient(conn).ListKillSwitches(ctx, &oncewardv1.ListKillSwitchesRequest{})
	if err != nil {
		return err
	}
	return c.show(s, resp.GetKillSwitches())
}

// stopJSON is a switch in JSON.
type stopJSON struct {
	ActionType string    `json:"action_type,omitempty"`
	Provider   string    `json:"provider,omitempty"`
	AllTenants bool      `json:"all_tenants"`
	Reason     string    `json:"reason"`
	SetBy      string    `json:"set_by"`
	SetAt      time.Time `json:"set_at"`
}

// show prints what is stopped.
func (c *switches) show(s streams, list []*oncewardv1.KillSwitch) error {
	if c.JSON {
		all := make([]stopJSON, len(list))
		for i, k := range list {
			all[i] = stopJSON{k.GetActionType(), k.GetProvider(), k.GetInstallationWide(), k.GetReason(), k.GetSetBy(), k.GetSetAt().AsTime()}
		}
		return printJSON(s.out, map[string]any{"kill_switches": all})
	}
	if len(list) == 0 {
		fmt.Fprintln(s.out, "Nothing is stopped.")
		return nil
	}
	rows := [][]string{{"STOPPED", "TENANTS", "SINCE", "BY", "REASON"}}
	for _, k := range list {
		what, whose := "everything", "this one"
		switch {
		case k.GetActionType() != "":
			what = "action type " + k.GetActionType()
		case k.GetProvider() != "":
			what = "provider " + k.GetProvider()
		}
		if k.GetInstallationWide() {
			whose = "all"
		}
		rows = append(rows, []string{what, whose, k.GetSetAt().AsTime().Format(time.RFC3339), k.GetSetBy(), k.GetReason()})
	}
	return printTable(s.out, rows)
}

// fromLedger are switches as the API has them.
func fromLedger(list []ledger.KillSwitch) []*oncewardv1.KillSwitch {
	all := make([]*oncewardv1.KillSwitch, len(list))
	for i, k := range list {
		all[i] = &oncewardv1.KillSwitch{ActionType: k.ActionType, Provider: k.Provider, Reason: k.Reason, SetBy: k.SetBy,
			SetAt: timestamppb.New(k.SetAt), InstallationWide: k.Tenant == ledger.AllTenants}
	}
	return all
}

// operatorName is who works on the ledger directly, as this machine knows them.
func operatorName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "operator:" + u.Username
	}
	return "operator"
}
