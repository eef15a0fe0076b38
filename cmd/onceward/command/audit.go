package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/internal/auditfile"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

type auditCmd struct {
	List       auditListCmd       `cmd:"" help:"List events of the tenant's audit record, and refused requests."`
	Verify     auditVerifyCmd     `cmd:"" help:"Find events that were removed or changed, in the ledger or in exported files."`
	Partitions auditPartitionsCmd `cmd:"" help:"List the days of the audit record."`
	Export     auditExportCmd     `cmd:"" help:"Write days of the audit record into files."`
	Drop       auditDropCmd       `cmd:"" help:"Remove a day of the audit record that was exported."`
}

func (*auditCmd) Help() string {
	return `The audit record: to read it, to verify it, and the way out for its history, which is kept by the day (in UTC) on which
an operation was recorded.

Example:
  onceward audit list --since=24h
  onceward audit verify
  onceward audit partitions
  onceward audit export --day=2026-10-01 --out=/var/lib/onceward-audit
  onceward audit drop --day=2026-10-01 --exported=/var/lib/onceward-audit`
}

type auditPartitionsCmd struct {
	owner
	Exact bool `help:"Count all events; else large days are estimated by the database."`
	JSON  bool `name:"json" help:"Print JSON."`
}

func (*auditPartitionsCmd) Help() string {
	return `Example:
  onceward audit partitions --database-url=postgres://owner@db/onceward
  onceward audit partitions --exact --json

EVENTS with a ~ is the database's estimate. NEEDED BY is how many operations of the day are still in the ledger: such
a day cannot be dropped. "default" is for operations of days that have no partition. Which days were exported is not
known here: exports are files. It reads the table of operations once.`
}

// auditPartitionJSON is a partition in JSON.
type auditPartitionJSON struct {
	Day        string `json:"day"`
	Over       bool   `json:"over"`
	Rows       int64  `json:"rows"`
	RowsExact  bool   `json:"rows_exact"`
	Bytes      int64  `json:"bytes"`
	Operations int64  `json:"operations"`
}

// Run lists the partitions.
func (c *auditPartitionsCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, func(store *postgres.Store) error {
		list, err := store.AuditPartitions(ctx, c.Exact)
		if err != nil {
			return err
		}
		if c.JSON {
			all := make([]auditPartitionJSON, len(list))
			for i, p := range list {
				all[i] = auditPartitionJSON{Day: string(p.Day), Over: p.Over, Rows: p.Rows, RowsExact: p.RowsExact, Bytes: p.Bytes, Operations: p.Operations}
			}
			encoder := json.NewEncoder(s.out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(map[string]any{"partitions": all})
		}
		w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "DAY\tEVENTS\tMIB\tNEEDED BY")
		for _, p := range list {
			about := "~"
			if p.RowsExact {
				about = ""
			}
			fmt.Fprintf(w, "%s\t%s%d\t%.1f\t%d operations\n", p.Day, about, p.Rows, float64(p.Bytes)/(1<<20), p.Operations)
		}
		return w.Flush()
	})
}

type auditExportCmd struct {
	owner
	Day    string `xor:"what" required:"" placeholder:"DATE" help:"This day, as in 2026-10-01; or default."`
	Before string `xor:"what" required:"" placeholder:"DATE" help:"All days before this one that are over and are not in the folder yet as they are."`
	Out    string `type:"path" required:"" placeholder:"DIR" help:"Folder for the files."`
}

func (*auditExportCmd) Help() string {
	return `Example:
  onceward audit export --day=2026-10-01 --out=/var/lib/onceward-audit --database-url=postgres://owner@db/onceward
  onceward audit export --before=2026-10-01 --out=/var/lib/onceward-audit

For each day one file of JSON lines, compressed by gzip, and a manifest with its checksums. A line is an event with
every column under its name; the order is that of tenant, operation and sequence. Nothing is removed from the ledger.
A day is exported when it is over (in UTC). Operations go on afterwards: export it again before you drop it.`
}

// Run exports.
func (c *auditExportCmd) Run(ctx context.Context, s streams) error {
	var day postgres.AuditDay
	var err error
	if c.Day != "" {
		day, err = postgres.ParseAuditDay(c.Day)
	} else if _, err = time.Parse(time.DateOnly, c.Before); err != nil {
		err = fmt.Errorf("%q is not a day: want one such as 2026-10-01", c.Before)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		if day != "" {
			return c.export(ctx, s, store, day)
		}
		list, err := store.AuditPartitions(ctx, false)
		if err != nil {
			return err
		}
		found := false
		for _, p := range list {
			if p.Day == postgres.AuditDefault || !p.Over || string(p.Day) >= c.Before {
				continue
			}
			found = true
			done, err := c.exported(ctx, store, p.Day)
			switch {
			case err != nil:
				return err
			case done:
				fmt.Fprintf(s.out, "%s is in %s already.\n", p.Day, c.Out)
				continue
			}
			if err := c.export(ctx, s, store, p.Day); err != nil {
				return err
			}
		}
		if !found {
			fmt.Fprintf(s.out, "The audit record has no day before %s that is over.\n", c.Before)
		}
		return nil
	})
}

// exported reports whether the folder has as many events of a day as the
// ledger.
func (c *auditExportCmd) exported(ctx context.Context, store *postgres.Store, day postgres.AuditDay) (bool, error) {
	m, err := auditfile.Read(c.Out, string(day))
	if auditfile.IsMissing(err) || errors.Is(err, auditfile.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rows, err := store.CountAudit(ctx, day)
	return rows == m.Rows, err
}

// export writes the file of a day.
func (c *auditExportCmd) export(ctx context.Context, s streams, store *postgres.Store, day postgres.AuditDay) error {
	working := newWorking(s, "exporting "+string(day))
	defer working.end()
	old, err := auditfile.Read(c.Out, string(day))
	if err != nil && !auditfile.IsMissing(err) && !errors.Is(err, auditfile.ErrChanged) {
		return err
	}
	rows := int64(0)
	m := auditfile.Manifest{Day: string(day), Program: program(), ExportedAt: time.Now().UTC().Truncate(time.Second)}
	m, err = auditfile.Write(c.Out, m, func(each func([]byte) error) error {
		err := store.ExportAudit(ctx, day, func(line []byte) error {
			rows++
			working.at(rows)
			return each(line)
		})
		if err == nil && rows < old.Rows {
			// Events are only ever added.
			err = fmt.Errorf("%s has an export of %s with %d events, and this ledger has %d: it is another ledger's, choose another folder",
				c.Out, day, old.Rows, rows)
		}
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return fmt.Errorf("the audit record has no partition of %s: it was dropped, or never made", day)
	case errors.Is(err, postgres.ErrAuditDayOpen):
		return fmt.Errorf("%s is not over yet (in UTC): more will be recorded", day)
	case err != nil:
		return err
	}
	working.end()
	fmt.Fprintf(s.out, "%s: %d events in %s, SHA-256 %s\n", day, m.Rows, m.File, m.SHA256)
	return nil
}

type auditDropCmd struct {
	owner
	Day      string        `required:"" placeholder:"DATE" help:"This day, as in 2026-10-01."`
	Exported string        `type:"path" required:"" placeholder:"DIR" help:"Folder with its export."`
	Wait     time.Duration `default:"30s" help:"How long to try to get the lock. Who serves goes on meanwhile."`
}

func (*auditDropCmd) Help() string {
	return `Example:
  onceward audit drop --day=2026-10-01 --exported=/var/lib/onceward-audit --database-url=postgres://owner@db/onceward

It refuses unless the day has been over for a day (in UTC), no operation of it is in the ledger any more, and its export
is there, undamaged, and line by line what the ledger has. Unresolved operations never go, and then their day stays.
Serving goes on while it works. A day that is gone already is no error. The default partition is never dropped.`
}

// Run drops the day.
func (c *auditDropCmd) Run(ctx context.Context, s streams) error {
	day, err := postgres.ParseAuditDay(c.Day)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if c.Wait < 0 {
		return fmt.Errorf("%w: --wait cannot be negative", errUsage)
	}
	return c.do(ctx, func(store *postgres.Store) error {
		working := newWorking(s, "comparing "+string(day)+" with its export")
		defer working.end()
		var rows int64
		err := store.DropAudit(ctx, postgres.AuditDrop{
			Day: day, Compared: working.at, Patience: c.Wait,
			Exported: func() (postgres.AuditDigest, error) {
				m, sum, err := auditfile.Verify(c.Exported, string(day))
				rows = m.Rows
				return postgres.AuditDigest{Rows: m.Rows, SHA256: sum}, err
			},
		})
		working.end()
		if errors.Is(err, ledger.ErrNotFound) {
			fmt.Fprintf(s.out, "%s is gone already: the audit record has no partition of that day.\n", day)
			return nil
		}
		if err != nil {
			return c.refusal(day, err)
		}
		fmt.Fprintf(s.out, "%s is dropped: %d events, which are in %s.\n", day, rows, c.Exported)
		return nil
	})
}

// refusal says why a day stays and what to do.
func (c *auditDropCmd) refusal(day postgres.AuditDay, err error) error {
	again := fmt.Sprintf("onceward audit export --day=%s --out=%s", day, c.Exported)
	var needed *postgres.AuditNeededError
	var busy *postgres.AuditBusyError
	switch {
	case errors.As(err, &needed):
		advice := "finished ones go when their windows are over"
		if needed.Unresolved > 0 {
			advice += ", unresolved ones never by themselves: see onceward get and onceward reviews"
		}
		return fmt.Errorf("%s stays: %w; %s", day, err, advice)
	case errors.As(err, &busy):
		return fmt.Errorf("%s stays for now: %w. Nothing was changed; let that end, or end it with SELECT pg_terminate_backend(PROCESS), and try again", day, err)
	case errors.Is(err, postgres.ErrAuditDayOpen):
		return fmt.Errorf("%s stays: it has not been over for a day yet (in UTC)", day)
	case errors.Is(err, postgres.ErrAuditDiffers), errors.Is(err, auditfile.ErrChanged):
		return fmt.Errorf("%s stays: %w; export it again: %s", day, err, again)
	case auditfile.IsMissing(err):
		return fmt.Errorf("%s stays: it is not exported (%w); first: %s", day, err, again)
	}
	return err
}

// working tells on standard error how far long work is. What is done in a few
// seconds is not talked about.
type working struct {
	what string
	show *progress
	gap  time.Duration
	next time.Time
}

func newWorking(s streams, what string) *working {
	w := &working{what: what, show: newProgress(s.err), gap: 10 * time.Second}
	if w.show.terminal {
		w.gap = time.Second
	}
	w.next = time.Now().Add(w.gap)
	return w
}

// at tells of the number of events that are done, now and then.
func (w *working) at(rows int64) {
	if rows%1000 != 0 { // the clock costs more than a row
		return
	}
	if now := time.Now(); now.After(w.next) {
		w.next = now.Add(w.gap)
		w.show.say(fmt.Sprintf("%s: %d events", w.what, rows))
	}
}

func (w *working) end() { w.show.end() }

// program is what the version command prints.
func program() string {
	var text strings.Builder
	_ = (&versionCmd{}).Run(streams{out: &text}) // a builder takes everything
	return strings.TrimSpace(text.String())
}
