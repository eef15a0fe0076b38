package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/auditchain"
	"github.com/onceward/onceward/internal/auditfile"
	"github.com/onceward/onceward/ledger/postgres"
)

type auditVerifyCmd struct {
	DatabaseURL string `env:"ONCEWARD_DATABASE_URL" name:"database-url" help:"Postgres URL of a role that may read the record: onceward_read, or the owner."`
	Tenant      string `help:"Only of this tenant."`
	Since       span   `placeholder:"TIME" help:"Only of operations recorded in this time, as in 24h or 7d."`
	Exported    string `type:"path" placeholder:"DIR" help:"Verify the exported files in this folder, without a database."`
	Day         string `placeholder:"DATE" help:"Of the files, only this day's."`
}

func (*auditVerifyCmd) Help() string {
	return `Example:
  onceward audit verify --database-url=postgres://auditor@db/onceward
  onceward audit verify --tenant=acme --since=24h
  onceward audit verify --exported=/var/lib/onceward-audit

Finds events that were removed or changed, the last ones of an operation too, and names the operation and the event. Exit
code 1 says that something was found. docs/audit.md says what the chain cannot show.`
}

// found prints problems, the first ones of many, and counts them.
type found struct {
	s     streams
	count int
}

// maxProblems is how many are printed.
const maxProblems = 200

func (f *found) add(p auditchain.Problem) {
	if f.count++; f.count <= maxProblems {
		fmt.Fprintln(f.s.out, p)
	}
}

// Run verifies the record.
func (c *auditVerifyCmd) Run(ctx context.Context, s streams) error {
	switch {
	case c.Exported == "" && c.DatabaseURL == "":
		return fmt.Errorf("%w: say where the record is: --database-url or --exported", errUsage)
	case c.Exported == "" && c.Day != "":
		return fmt.Errorf("%w: --day is for --exported files; --since is for the database", errUsage)
	case c.Exported != "" && (c.Tenant != "" || c.Since > 0):
		return fmt.Errorf("%w: --tenant and --since are for the database; files are verified as a whole", errUsage)
	}
	f := &found{s: s}
	v := &auditchain.Verifier{Found: f.add}
	working := newWorking(s, "verifying")
	defer working.end()
	add := func(line []byte) error {
		e, err := auditchain.Parse(line)
		if err != nil {
			return err
		}
		v.Add(e)
		working.at(v.Events)
		return ctx.Err()
	}
	var err error
	if c.Exported != "" {
		err = c.files(f, v, add)
	} else {
		err = owner{c.DatabaseURL}.do(ctx, func(store *postgres.Store) error { return c.ledger(ctx, store, f, v, add) })
	}
	working.end()
	if err != nil {
		return err
	}
	if f.count > maxProblems {
		fmt.Fprintf(s.out, "and %d more\n", f.count-maxProblems)
	}
	if f.count > 0 {
		problems := "problems"
		if f.count == 1 {
			problems = "problem"
		}
		return fmt.Errorf("the audit record is not as it was written: %d %s in %d events", f.count, problems, v.Events)
	}
	if c.Tenant != "" && v.Events == 0 {
		// A name that is mistyped must not look like a record that is whole.
		return fmt.Errorf("nothing is recorded of a tenant %q in this time, so nothing was verified: is the name right?", c.Tenant)
	}
	fmt.Fprintf(s.out, "The audit record is whole: %d events of %d operations.\n", v.Events, v.Operations)
	return nil
}

// ledger verifies what the database has.
func (c *auditVerifyCmd) ledger(ctx context.Context, store *postgres.Store, f *found, v *auditchain.Verifier, add func([]byte) error) error {
	var since time.Time
	if c.Since > 0 {
		since = time.Now().Add(-time.Duration(c.Since))
	}
	if err := store.AuditRecord(ctx, c.Tenant, since, add); err != nil {
		return err
	}
	v.End()
	lost, err := store.Unrecorded(ctx, c.Tenant, since, maxProblems)
	for _, o := range lost {
		f.add(auditchain.Problem{Tenant: o.Tenant, OperationID: o.ID, What: fmt.Sprintf("it is in the ledger (%s), and its whole record was removed", o.State)})
	}
	return err
}

// files verifies what was exported.
func (c *auditVerifyCmd) files(f *found, v *auditchain.Verifier, add func([]byte) error) error {
	days := []string{c.Day}
	if c.Day == "" {
		var err error
		if days, err = auditfile.Days(c.Exported); err != nil {
			return err
		}
	}
	if len(days) == 0 {
		return fmt.Errorf("%s has no exported files: onceward audit export writes them", c.Exported)
	}
	for _, day := range days {
		// A file that is not as its manifest says is read nevertheless, for it says
		// which operation is concerned.
		_, _, err := auditfile.Verify(c.Exported, day)
		damaged := errors.Is(err, auditfile.ErrChanged)
		if err != nil && !damaged {
			return fmt.Errorf("%s: %w", day, err)
		}
		if damaged {
			f.count++
			fmt.Fprintf(f.s.out, "%s: %s\n", day, err)
		}
		if err := auditfile.Lines(c.Exported, day, add); err != nil && !damaged {
			return fmt.Errorf("%s: %w", day, err)
		}
		v.End()
	}
	return nil
}
