package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	prepareTimeout = 2 * time.Minute
	databaseTime   = time.Minute // for one CREATE or DROP, other tests waiting too
)

// Template is a database that is prepared once per test binary and server, and
// copied for each test.
type Template struct {
	// Name tells templates apart: two with one name are the same template, and
	// only the Prepare of the first to come is run.
	Name string
	// Prepare fills the database at url, as the superuser. It may do anything,
	// such as running migrations or making roles; since roles belong to the
	// whole server, it must bear with ones that exist. Connections that it
	// leaves open are closed. Nil leaves the database empty.
	//
	// It is not called under a test: ctx bounds its time only, and an error
	// fails each test that wants the template.
	Prepare func(ctx context.Context, url string) error
}

// cluster makes databases on a server. It is safe for concurrent use.
type cluster struct {
	admin string
	url   func(database string) string
	// id is in every name made here, so that test binaries can share a server.
	id string

	mu        sync.Mutex
	made      int
	templates map[string]*template
}

// template is the state of one Template on one server.
type template struct {
	once     sync.Once
	err      error
	database string
}

func newCluster(urlOf func(database string) string) *cluster {
	return &cluster{
		admin:     urlOf("postgres"),
		url:       urlOf,
		id:        strings.ToLower(rand.Text()[:10]),
		templates: map[string]*template{},
	}
}

// externalCluster is for a server that is not ours; admin names a database
// that exists.
func externalCluster(admin string) (*cluster, error) {
	u, err := url.Parse(admin)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%s does not hold a URL such as postgres://user:password@host/database", EnvURL)
	}
	c := newCluster(func(database string) string {
		other := *u
		other.Path = "/" + database
		return other.String()
	})
	c.admin = admin
	return c, nil
}

// newDatabase makes a database and drops it at the end of the test.
func (c *cluster) newDatabase(t testing.TB, tpl Template) string {
	t.Helper()
	url, name := c.create(t, tpl)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), databaseTime)
		defer cancel()
		if err := c.drop(ctx, name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return url
}

func (c *cluster) create(t testing.TB, tpl Template) (url, name string) {
	t.Helper()
	source, err := c.template(tpl)
	if err != nil {
		t.Fatalf("pgtest: template %q: %v", tpl.Name, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), databaseTime)
	defer cancel()
	name = c.nextName("test")
	if err := c.exec(ctx, "CREATE DATABASE "+quoted(name)+" TEMPLATE "+quoted(source)); err != nil {
		t.Fatalf("pgtest: copying template %q: %v", tpl.Name, err)
	}
	return c.url(name), name
}

// template returns the name of the database to copy.
func (c *cluster) template(tpl Template) (string, error) {
	if tpl.Prepare == nil {
		return "template1", nil
	}
	if tpl.Name == "" {
		return "", errors.New("a template with Prepare needs a Name")
	}
	c.mu.Lock()
	state, ok := c.templates[tpl.Name]
	if !ok {
		state = &template{}
		c.templates[tpl.Name] = state
	}
	c.mu.Unlock()
	state.once.Do(func() { state.database, state.err = c.prepare(tpl) })
	return state.database, state.err
}

func (c *cluster) prepare(tpl Template) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	name := c.nextName("template")
	if err := c.exec(ctx, "CREATE DATABASE "+quoted(name)); err != nil {
		return "", err
	}
	if err := tpl.Prepare(ctx, c.url(name)); err != nil {
		return name, fmt.Errorf("preparing it: %w", err)
	}
	// A database that somebody is connected to cannot be copied.
	err := c.exec(ctx,
		"ALTER DATABASE "+quoted(name)+" ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'",
	)
	return name, err
}

func (c *cluster) nextName(kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	return fmt.Sprintf("onceward_%s_%s_%d", c.id, kind, c.made)
}

func (c *cluster) drop(ctx context.Context, name string) error {
	return c.exec(ctx, "DROP DATABASE IF EXISTS "+quoted(name)+" WITH (FORCE)")
}

// dropTemplates removes what no test removes. No test may run any more.
func (c *cluster) dropTemplates(ctx context.Context) error {
	var errs []error
	for _, state := range c.templates {
		if state.database != "" {
			errs = append(errs, c.drop(ctx, state.database))
		}
	}
	return errors.Join(errs...)
}

// exec runs statements on a connection of its own: a pool would leave
// goroutines that a leak check in the test would report.
func (c *cluster) exec(ctx context.Context, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, statement := range statements {
		// Without the extended protocol: two round trips less, and none of
		// these has parameters.
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }
