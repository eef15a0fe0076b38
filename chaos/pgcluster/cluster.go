package pgcluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/onceward/onceward/migrations"
)

const (
	databaseName = "onceward"
	superuser    = "onceward"
	serveLogin   = "onceward_app"
	// stepTimeout bounds one step that has no bound of its own, such as waiting
	// for a standby.
	stepTimeout = time.Minute
)

// Cluster is a running cluster. It is safe for concurrent use: steps that change it
// are made one after the other, and its addresses can be asked for meanwhile.
type Cluster struct {
	o        Options
	password string // the superuser's and the serving login's, on every server

	step sync.Mutex // held for a whole step

	mu      sync.Mutex // guards what follows
	primary *node
	standby *node // nil: none
	deposed *node // the primary before the last failover; nil: none
	pooler  *pooler
	made    int // servers so far
	moved   []func(address string)
}

// Start runs a cluster and returns when it takes writes. ctx bounds the start only.
// The error wraps [ErrNoPooler] when PgBouncer is wanted and not installed.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.normalize()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(o.Dir, 0o755), os.Chmod(o.Dir, 0o711)); err != nil {
		return nil, fmt.Errorf("pgcluster: %w", err)
	}
	c := &Cluster{o: o, password: rand.Text()}
	if err := c.begin(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) begin(ctx context.Context) error {
	if c.o.Pooler {
		var err error
		if c.pooler, err = newPooler(filepath.Join(c.o.Dir, "pooler")); err != nil {
			return err
		}
	}
	primary, err := c.newNode()
	if err != nil {
		return err
	}
	c.primary = primary
	if err := primary.start(ctx, c.o); err != nil {
		return err
	}
	if primary.disk != nil {
		// The server made its folder at its first start; only now it can be moved.
		if err := errors.Join(primary.stop(ctx), primary.disk.take(ctx, primary.data())); err != nil {
			return err
		}
		if err := primary.start(ctx, c.o); err != nil {
			return err
		}
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if c.o.Standby {
		// In a file, not an argument, so that it is copied to every standby to come;
		// in force when the first one is there.
		if err := primary.exec(ctx, "postgres", "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'"); err != nil {
			return err
		}
		if err := c.addStandby(ctx); err != nil {
			return err
		}
		if err := primary.exec(ctx, "postgres", "SELECT pg_reload_conf()"); err != nil {
			return err
		}
		if err := c.awaitStandby(ctx); err != nil {
			return err
		}
	}
	if c.pooler == nil {
		return nil
	}
	if err := c.pooler.configure(primary.port, serveLogin, c.password); err != nil {
		return err
	}
	return c.pooler.start(ctx)
}

// newNode makes the name, the folder's path and the disk of one more server.
func (c *Cluster) newNode() (*node, error) {
	c.made++
	n := &node{name: fmt.Sprintf("server%d", c.made), password: c.password}
	n.dir = filepath.Join(c.o.Dir, n.name)
	var err error
	n.disk, err = newDisk(n.dir, c.o)
	return n, err
}

// prepare makes the database, its schema and the serving login.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.primary.exec(ctx, "postgres", "CREATE DATABASE "+databaseName); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, c.primary.server.URL(databaseName)); err != nil {
		return err
	}
	return c.primary.exec(ctx, databaseName,
		"CREATE ROLE "+serveLogin+" LOGIN PASSWORD '"+c.password+"' IN ROLE onceward_serve")
}

// addStandby makes a standby of the primary and waits until it has caught up.
func (c *Cluster) addStandby(ctx context.Context) error {
	c.o.Log.InfoContext(ctx, "a standby is made", "of", c.primary.name)
	n, err := c.newNode()
	if err != nil {
		return err
	}
	if err = n.copyFrom(ctx, c.primary); err == nil {
		err = n.start(ctx, c.o)
	}
	if err != nil {
		return errors.Join(err, n.disk.close())
	}
	c.mu.Lock()
	c.standby = n
	c.mu.Unlock()
	return c.await(ctx, "a standby streams", `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '`+standbyName+`' AND state = 'streaming')`)
}

// awaitStandby waits until commits are confirmed by the standby.
func (c *Cluster) awaitStandby(ctx context.Context) error {
	return c.await(ctx, "the standby is synchronous", `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '`+standbyName+`' AND sync_state = 'sync')`)
}

func (c *Cluster) await(ctx context.Context, what, query string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("not within %s", stepTimeout))
	defer cancel()
	return c.primary.await(ctx, what, query)
}

// OwnerURL leads to the database on the present primary as the superuser, who owns
// the tables. It holds a password.
func (c *Cluster) OwnerURL() string { return c.url(superuser, c.Address()) }

// ServeURL leads there as a login that is a member of onceward_serve.
func (c *Cluster) ServeURL() string { return c.url(serveLogin, c.Address()) }

// ServeURLAt is ServeURL by way of other addresses: an edge in front of the primary,
// the pooler, or several servers at once.
func (c *Cluster) ServeURLAt(hosts string) string { return c.url(serveLogin, hosts) }

// OwnerURLAt is OwnerURL by way of other addresses.
func (c *Cluster) OwnerURLAt(hosts string) string { return c.url(superuser, hosts) }

func (c *Cluster) url(user, hosts string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, c.password), Host: hosts, Path: "/" + databaseName, RawQuery: "sslmode=disable"}
	return u.String()
}

// Address is the present primary's host and port.
func (c *Cluster) Address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary.address()
}

// StandbyAddress is the present standby's host and port, or empty.
func (c *Cluster) StandbyAddress() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standby == nil {
		return ""
	}
	return c.standby.address()
}

// PoolerAddress is PgBouncer's host and port, or empty. It does not move.
func (c *Cluster) PoolerAddress() string {
	if c.pooler == nil {
		return ""
	}
	return c.pooler.address()
}

// OnMove calls f with the address of each new primary, after it takes writes and
// before its standby is there. f must not call the cluster's steps.
func (c *Cluster) OnMove(f func(address string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = append(c.moved, f)
}

// Close ends everything. What does not end in time is told the log.
func (c *Cluster) Close() {
	c.step.Lock()
	defer c.step.Unlock()
	ctx := context.Background() // each stop has its own bound
	var errs []error
	if c.pooler != nil {
		errs = append(errs, c.pooler.stop(), c.pooler.log.Close())
	}
	// A primary that stops waits for its standby to have everything.
	for _, n := range []*node{c.primary, c.standby, c.deposed} {
		if n != nil {
			errs = append(errs, n.stop(ctx), n.disk.close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.o.Log.WarnContext(ctx, "closing the cluster", "error", err)
	}
}
