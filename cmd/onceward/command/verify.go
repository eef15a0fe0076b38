package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/privatepg"
	"github.com/onceward/onceward/proof"
)

type verifyCmd struct {
	Files       []string      `arg:"" optional:"" help:"Files and folders with providers and actions, or names of the catalogue."`
	Path        []string      `help:"Walk only the paths that match this pattern, as in --path='lookup-*'; can be repeated."`
	List        bool          `help:"List the paths and walk none."`
	DatabaseURL string        `name:"database-url" help:"Use this Postgres instead of a private one, in a database that is dropped in the end; the role may create databases and roles."`
	Patience    time.Duration `default:"20s" help:"How long one operation may take to be settled or brought before a person, 1s to 1m."`
	JSON        bool          `name:"json" help:"Print the report as one JSON object."`

	// load reads files into subjects; nil is loadSubjects.
	load func(ctx context.Context, paths []string) (subjects []proof.Subject, closeAll func() error, err error) `kong:"-"`
}

func (*verifyCmd) Help() string {
	return `Example:
  onceward verify stripe
  onceward verify --path='lookup-*' ./onceward
  onceward verify --list

It walks each action type through every way in which a provider and a network misbehave, with a
whole Onceward and a simulated provider in this process, and counts what the provider holds in the
end. Nothing is sent anywhere else, and nothing is left behind. The exit code is 1 when a path ends
with two effects, a claim that is not so, a credential in the ledger or an operation that is stuck,
and when a contract has a danger that is an error.`
}

// Run walks the paths and prints what came of them.
func (c *verifyCmd) Run(ctx context.Context, s streams) (err error) {
	if c.List {
		return printPaths(s.out, c.JSON)
	}
	chosen, err := c.chosen()
	switch {
	case err != nil:
		return err
	case len(c.Files) == 0:
		return fmt.Errorf("%w: name the files to verify, or --list", errUsage)
	case c.Patience < time.Second || c.Patience > time.Minute:
		return fmt.Errorf("%w: --patience wants 1s to 1m", errUsage)
	}
	load := c.load
	if load == nil {
		load = func(_ context.Context, paths []string) ([]proof.Subject, func() error, error) {
			return loadSubjects(s, paths)
		}
	}
	subjects, closeAll, err := load(ctx, c.Files)
	if err != nil {
		return faulty(s, err)
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	if len(subjects) == 0 {
		return errors.New("the files hold no action type, so that there is nothing to verify")
	}
	live := newProgress(s.err)
	defer live.end()
	report, err := c.prove(ctx, live, proof.Options{
		Subjects: subjects, Patience: c.Patience, Progress: live.walked,
		Select: chosen,
	})
	switch {
	case ctx.Err() != nil:
		return errInterrupted // what a proof in its middle says is of no use
	case err != nil:
		return err
	}
	live.end()
	write := writeReport
	if c.JSON {
		write = writeReportJSON
	}
	if err := write(s.out, report); err != nil {
		return err
	}
	if n := report.Failures(); n > 0 {
		return fmt.Errorf("not proved: %d paths or contracts are not safe", n)
	}
	return nil
}

// chosen says which paths to walk. A pattern that no path has is a mistake; those
// that are an action type's own are known only later.
func (c *verifyCmd) chosen() (func(name string) bool, error) {
	for _, pattern := range c.Path {
		matches := func(p proof.PathInfo) bool {
			match, err := path.Match(pattern, p.Name)
			return match && err == nil
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("%w: --path=%s is no pattern; write it as in 'lookup-*'", errUsage, pattern)
		}
		if !strings.HasPrefix(pattern, proof.AnswerPrefix) && !slices.ContainsFunc(proof.Paths(), matches) {
			return nil, fmt.Errorf("%w: no path matches --path=%s (see onceward verify --list)", errUsage, pattern)
		}
	}
	return func(name string) bool {
		return len(c.Path) == 0 || slices.ContainsFunc(c.Path, func(pattern string) bool {
			match, err := path.Match(pattern, name)
			return match && err == nil
		})
	}, nil
}

// prove makes a database, runs the proof in it, and removes it again.
func (c *verifyCmd) prove(ctx context.Context, live *progress, o proof.Options) (_ proof.Report, err error) {
	serverURL := c.DatabaseURL
	if serverURL == "" {
		live.say("starting a private Postgres")
		dir, err := os.MkdirTemp("", "onceward-verify-")
		if err != nil {
			return proof.Report{}, err
		}
		defer os.RemoveAll(dir)
		// The account of a private Postgres must pass through.
		if err := os.Chmod(dir, 0o711); err != nil {
			return proof.Report{}, err
		}
		// Speed matters here, and what a crash of the machine would lose does not.
		pg, err := privatepg.Start(ctx, privatepg.Options{Dir: filepath.Join(dir, "postgres"), Settings: map[string]string{"fsync": "off"}})
		if err != nil {
			return proof.Report{}, err
		}
		defer func() {
			stopping, cancel := context.WithTimeout(context.Background(), verifyCleanUpTimeout)
			defer cancel()
			err = errors.Join(err, pg.Stop(stopping))
		}()
		serverURL = pg.URL("postgres")
	}
	name := "onceward_verify_" + strings.ToLower(rand.Text()[:10]) // the server may have others on it
	if o.OwnerURL, err = ensureDatabase(ctx, serverURL, name); err != nil {
		return proof.Report{}, err
	}
	if c.DatabaseURL != "" { // a private one goes as a whole
		defer func() { err = errors.Join(err, dropDatabase(serverURL, name)) }()
	}
	live.say("preparing the ledger")
	return proof.Run(ctx, o)
}

// verifyCleanUpTimeout bounds how long the database may take to go.
const verifyCleanUpTimeout = 20 * time.Second

func dropDatabase(serverURL, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), verifyCleanUpTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, serverURL)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return errors.Join(err, conn.Close(ctx))
}
