package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

type restoreCmd struct {
	Begin  restoreBeginCmd  `cmd:"" help:"Say that the ledger was restored, before anything serves it."`
	Status restoreStatusCmd `cmd:"" help:"Show how far the recovery is."`
	Clear  restoreClearCmd  `cmd:"" help:"Let a tenant or an action type go on."`
	End    restoreEndCmd    `cmd:"" help:"Let everything go on."`
}

func (*restoreCmd) Help() string { return (*restoreBeginCmd)(nil).Help() }

// instant is a time as people write it into a flag.
type instant time.Time

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is no time: want one such as 2026-11-30T02:00:00Z", text)
	}
	*i = instant(at)
	return nil
}

type restoreBeginCmd struct {
	owner
	LostFrom  instant `required:"" placeholder:"TIME" help:"The time that the ledger was restored to: of the backup, or the recovery target. Earlier is safe."`
	LostUntil instant `required:"" placeholder:"TIME" help:"When the old ledger was lost. Later is safe."`
}

func (*restoreBeginCmd) Help() string {
	return `Example:
  onceward restore begin --lost-from=2026-11-30T02:00:00Z --lost-until=2026-11-30T09:41:00Z --database-url=postgres://owner@db/onceward

Run it on the restored database while nothing serves it. What is open is in doubt then, and while the recovery lasts every
new operation is recorded in doubt and not sent: an agent may be asking again for what was done in the lost time. The
reconciler looks for the effects; what it does not find goes to a person. docs/backup-restore.md has all the steps.`
}

// Run begins a recovery.
func (c *restoreBeginCmd) Run(ctx context.Context, s streams) error {
	from, until := time.Time(c.LostFrom), time.Time(c.LostUntil)
	switch {
	case until.Before(from):
		return fmt.Errorf("%w: --lost-until is before --lost-from", errUsage)
	case until.After(time.Now().Add(time.Minute)):
		return fmt.Errorf("%w: --lost-until is in the future", errUsage)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		moved, err := store.BeginRestore(ctx, ledger.Restore{LostFrom: from, LostUntil: until, BegunBy: operatorName()})
		if errors.Is(err, ledger.ErrServing) {
			return errors.New("onceward serve is connected to this database: stop every replica, then run this again; nothing was changed")
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out, "The recovery has begun: new operations are recorded in doubt and not sent.")
		for _, state := range ledger.States() {
			if n := moved[state]; n > 0 {
				fmt.Fprintf(s.out, "In doubt now: %d that were %s.\n", n, state)
			}
		}
		fmt.Fprint(s.out, toCheck)
		return nil
	})
}

// toCheck is what a restore takes back besides operations.
const toCheck = `
The database has also forgotten what people did in the lost time. Check before you start the replicas:
  kill switches that were set       onceward stops --all-tenants
  keys that were revoked            onceward keys list TENANT
  tenants that were switched off    onceward tenants list
  budgets: what was spent is not counted; lower them until their windows are over, where that matters
  tokens that internal services use once are good again until they run out

Then start the replicas, and see how far it is: onceward restore status
`

type restoreStatusCmd struct {
	owner
	JSON bool `help:"Print JSON."`
}

func (*restoreStatusCmd) Help() string {
	return "Example:\n  onceward restore status --database-url=postgres://owner@db/onceward\n\nIt reads all operations, which takes a while on a large ledger. onceward reviews has what waits for a person."
}

// restoreJSON is the state of a recovery in JSON.
type restoreJSON struct {
	InForce      bool          `json:"in_force"`
	LostFrom     *time.Time    `json:"lost_from,omitempty"`
	LostUntil    *time.Time    `json:"lost_until,omitempty"`
	BegunAt      *time.Time    `json:"begun_at,omitempty"`
	BegunBy      string        `json:"begun_by,omitempty"`
	EndedAt      *time.Time    `json:"ended_at,omitempty"`
	EndedBy      string        `json:"ended_by,omitempty"`
	Cleared      []clearedJSON `json:"cleared,omitempty"`
	InDoubt      int64         `json:"in_doubt"`
	WithPeople   int64         `json:"with_people"`
	Recorded     int64         `json:"recorded"`
	LastRecorded *time.Time    `json:"last_recorded,omitempty"`
}

// clearedJSON is what may go on, in JSON.
type clearedJSON struct {
	Tenant     string    `json:"tenant"` // "*": of all
	ActionType string    `json:"action_type,omitempty"`
	Reason     string    `json:"reason"`
	By         string    `json:"by"`
	At         time.Time `json:"at"`
}

func clearedOf(r ledger.Restore) []clearedJSON {
	var all []clearedJSON
	for _, k := range r.Clearances {
		all = append(all, clearedJSON(k))
	}
	return all
}

// Run shows the latest recovery.
func (c *restoreStatusCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, func(store *postgres.Store) error {
		all, err := store.Restores(ctx, false)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			if c.JSON {
				return printJSON(s.out, restoreJSON{})
			}
			fmt.Fprintln(s.out, "This ledger was never restored, or nobody said so.")
			return nil
		}
		latest := all[0]
		counts, err := store.RestoreCounts(ctx, latest.BegunAt)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(s.out, restoreJSON{
				InForce: latest.InForce(), LostFrom: &latest.LostFrom, LostUntil: &latest.LostUntil, BegunAt: &latest.BegunAt, BegunBy: latest.BegunBy,
				EndedAt: atOrNil(latest.EndedAt), EndedBy: latest.EndedBy, Cleared: clearedOf(latest),
				InDoubt: counts.InDoubt, WithPeople: counts.WithPeople, Recorded: counts.Recorded, LastRecorded: atOrNil(counts.LastRecorded),
			})
		}
		fmt.Fprintf(s.out, "Lost: %s until %s. Begun %s by %s.\n", stamp(latest.LostFrom), stamp(latest.LostUntil), stamp(latest.BegunAt), latest.BegunBy)
		if !latest.InForce() {
			fmt.Fprintf(s.out, "Ended %s by %s: new operations are sent.\n", stamp(latest.EndedAt), latest.EndedBy)
		} else {
			fmt.Fprintln(s.out, "In force: new operations are recorded in doubt and not sent.")
		}
		for _, k := range latest.Clearances {
			fmt.Fprintf(s.out, "Cleared: %s, by %s: %s\n", clearedText(k), k.By, k.Reason)
		}
		fmt.Fprintf(s.out, "Still looked into: %d. Waiting for a person: %d.\n", counts.InDoubt, counts.WithPeople)
		fmt.Fprintf(s.out, "New ones recorded in doubt and not settled: %d", counts.Recorded)
		if !counts.LastRecorded.IsZero() {
			fmt.Fprintf(s.out, ", the latest at %s", stamp(counts.LastRecorded))
		}
		fmt.Fprintln(s.out, ".")
		return nil
	})
}

func atOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func clearedText(k ledger.Clearance) string {
	switch {
	case k.ActionType == "":
		return "tenant " + k.Tenant
	case k.Tenant == ledger.AllTenants:
		return "action type " + k.ActionType + " of all tenants"
	default:
		return "action type " + k.ActionType + " of tenant " + k.Tenant
	}
}

type restoreClearCmd struct {
	owner
	Tenant     string `help:"Only this tenant."`
	ActionType string `help:"Only this action type."`
	Reason     string `required:"" help:"Why nothing of it can be sent twice."`
}

func (*restoreClearCmd) Help() string {
	return `Example:
  onceward restore clear --tenant=acme --reason='its agents were off in the lost time' --database-url=postgres://owner@db/onceward
  onceward restore clear --action-type=crm.note.create --reason='a second note does no harm' --database-url=postgres://owner@db/onceward

New operations of it are sent again. What was recorded in doubt stays so, until it is found or a person decides.`
}

// Run ends a recovery for a part.
func (c *restoreClearCmd) Run(ctx context.Context, s streams) error {
	switch {
	case c.Tenant == "" && c.ActionType == "":
		return fmt.Errorf("%w: --tenant or --action-type, or both; onceward restore end is for everything", errUsage)
	case strings.TrimSpace(c.Reason) == "":
		return fmt.Errorf("%w: --reason: say why", errUsage)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		k := ledger.Clearance{Tenant: c.Tenant, ActionType: c.ActionType, Reason: c.Reason, By: operatorName()}
		if k.Tenant == "" {
			k.Tenant = ledger.AllTenants
		}
		if err := noRestore(store.ClearRestore(ctx, k)); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "Cleared: %s. The name was not checked: onceward restore status shows what is cleared.\n", clearedText(k))
		return nil
	})
}

type restoreEndCmd struct {
	owner
	Reason string `required:"" help:"Why nobody asks again any more for what was done in the lost time."`
}

func (*restoreEndCmd) Help() string {
	return `Example:
  onceward restore end --reason='queues are drained, agents retry for 24 h at most' --database-url=postgres://owner@db/onceward

From then on a new key is a new action. End it when the longest retry of any caller and the longest life of a message in a
queue have passed since the loss: a key of the lost time that comes in later is sent a second time.`
}

// Run ends a recovery.
func (c *restoreEndCmd) Run(ctx context.Context, s streams) error {
	if strings.TrimSpace(c.Reason) == "" {
		return fmt.Errorf("%w: --reason: say why", errUsage)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		if err := noRestore(store.EndRestore(ctx, operatorName(), c.Reason)); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "The recovery has ended: new operations are sent. What is in doubt stays so until it is found or a person decides.")
		return nil
	})
}

func noRestore(err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return errors.New("no recovery is under way: onceward restore status shows the last one")
	}
	return err
}
