package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kill ends the primary with kill -9 and starts it again, which recovers it.
func (c *Cluster) Kill(ctx context.Context) error {
	c.step.Lock()
	defer c.step.Unlock()
	c.o.Log.InfoContext(ctx, "the primary is killed", "name", c.primary.name)
	if err := c.primary.server.Kill(); err != nil {
		return err
	}
	return c.start(ctx)
}

// Restart stops the primary in order, with its connections, and starts it again.
func (c *Cluster) Restart(ctx context.Context) error {
	c.step.Lock()
	defer c.step.Unlock()
	c.o.Log.InfoContext(ctx, "the primary restarts", "name", c.primary.name)
	if err := c.primary.stop(ctx); err != nil {
		return err
	}
	return c.start(ctx)
}

// start runs the primary again and waits until its standby confirms commits.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.primary.start(ctx, c.o); err != nil {
		return err
	}
	if c.standby == nil {
		return nil
	}
	return c.awaitStandby(ctx)
}

// Failover kills the primary and promotes its standby, then tells OnMove, and then
// makes a new standby: until that follows, commits wait. The old primary's data stay
// until the next failover (see [Cluster.Revive]).
func (c *Cluster) Failover(ctx context.Context) error {
	c.step.Lock()
	defer c.step.Unlock()
	if c.standby == nil {
		return errors.New("pgcluster: there is no standby to promote")
	}
	c.o.Log.InfoContext(ctx, "failover", "from", c.primary.name, "to", c.standby.name)
	if err := c.primary.server.Kill(); err != nil {
		return err
	}
	if err := c.standby.promote(ctx); err != nil {
		return err
	}
	forgotten := c.deposed
	c.mu.Lock()
	c.deposed, c.primary, c.standby = c.primary, c.standby, nil
	moved := append([]func(string){}, c.moved...)
	c.mu.Unlock()
	if c.pooler != nil {
		if err := errors.Join(c.pooler.configure(c.primary.port, serveLogin, c.password), c.pooler.reload()); err != nil {
			return err
		}
	}
	for _, f := range moved {
		f(c.primary.address())
	}
	if err := c.forget(ctx, forgotten); err != nil {
		return err
	}
	if err := c.addStandby(ctx); err != nil {
		return err
	}
	return c.awaitStandby(ctx)
}

// promote makes a standby the primary.
func (n *node) promote(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.server.URL("postgres"))
	if err != nil {
		return fmt.Errorf("pgcluster: %s: %w", n.name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var promoted bool
	err = conn.QueryRow(ctx, "SELECT pg_promote(true, $1)", int(stepTimeout/time.Second)).Scan(&promoted)
	if err != nil || !promoted {
		return fmt.Errorf("pgcluster: promoting %s (promoted %t): %w", n.name, promoted, err)
	}
	return nil
}

// forget removes a server that will not be needed again.
func (c *Cluster) forget(ctx context.Context, n *node) error {
	if n == nil {
		return nil
	}
	if err := errors.Join(n.stop(ctx), n.disk.close()); err != nil {
		return err
	}
	if err := os.RemoveAll(n.dir); err != nil {
		return fmt.Errorf("pgcluster: %w", err)
	}
	return nil
}

// Revive starts the primary that the last failover deposed, as it was: a second
// primary, which nobody has told that it is none any more. It returns its address.
func (c *Cluster) Revive(ctx context.Context) (address string, err error) {
	c.step.Lock()
	defer c.step.Unlock()
	if c.deposed == nil {
		return "", errors.New("pgcluster: nothing was deposed")
	}
	c.o.Log.InfoContext(ctx, "the old primary comes back", "name", c.deposed.name)
	if err := c.deposed.start(ctx, c.o); err != nil {
		return "", err
	}
	return c.deposed.address(), nil
}

// RestartPooler kills PgBouncer, with all connections, and starts it again.
func (c *Cluster) RestartPooler(ctx context.Context) error {
	c.step.Lock()
	defer c.step.Unlock()
	if c.pooler == nil {
		return errors.New("pgcluster: there is no pooler")
	}
	if err := c.pooler.stop(); err != nil {
		return err
	}
	return c.pooler.start(ctx)
}

// FillDisk takes all room on the primary's disk. free gives it back, and starts the
// primary again if it ended by itself, as it does without room for its log; it may
// be called more than once, and tells the log what it cannot do.
func (c *Cluster) FillDisk(ctx context.Context) (free func(), err error) {
	c.step.Lock()
	defer c.step.Unlock()
	n := c.primary
	if n.disk == nil {
		return nil, errors.New("pgcluster: no disk can fill up: give Options.DiskMB")
	}
	c.o.Log.InfoContext(ctx, "the disk is filled", "name", n.name, "holds", c.o.Disk)
	if err := n.disk.fill(); err != nil {
		return nil, errors.Join(err, n.disk.free())
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
		defer cancel()
		if err := c.makeRoom(ctx, n); err != nil {
			c.o.Log.ErrorContext(ctx, "making room", "error", err)
		}
	}, nil
}

func (c *Cluster) makeRoom(ctx context.Context, n *node) error {
	c.step.Lock()
	defer c.step.Unlock()
	if err := n.disk.free(); err != nil {
		return err
	}
	if n != c.primary {
		return nil // there was a failover meanwhile
	}
	for {
		err := n.writes(ctx)
		if err == nil {
			return nil // it never ended, or has recovered by itself
		}
		select {
		case <-n.server.Done():
			c.o.Log.InfoContext(ctx, "the primary had ended", "name", n.name, "error", n.server.Err())
			return c.start(ctx)
		case <-ctx.Done():
			return fmt.Errorf("pgcluster: %s does not recover: %w", n.name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// writes reports whether the server writes its log, and has for a moment: after a
// panic it takes connections until it has noticed.
func (n *node) writes(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, n.server.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it has served its purpose
	for range 2 {
		if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'pgcluster', ''), pg_sleep(0.2)"); err != nil {
			return err
		}
	}
	return nil
}
