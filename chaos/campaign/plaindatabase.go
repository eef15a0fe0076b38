package campaign

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/privatepg"
	"github.com/onceward/onceward/migrations"
)

// plainDatabase is one Postgres without a standby.
type plainDatabase struct {
	mu      sync.Mutex
	options privatepg.Options
	server  *privatepg.Server
}

const (
	databaseName  = "chaos"
	serveLogin    = "chaos_serve"
	servePassword = "chaos"
)

func startPlain(ctx context.Context, dir string, log *slog.Logger) (*plainDatabase, error) {
	d := &plainDatabase{options: privatepg.Options{Dir: dir, Log: log, Settings: map[string]string{
		// A process that is killed leaves what it wrote to the system, which lives on.
		"fsync": "off", "full_page_writes": "off", "dynamic_shared_memory_type": "mmap", "max_wal_size": "256MB",
	}}}
	var err error
	if d.server, err = privatepg.Start(ctx, d.options); err != nil {
		return nil, err
	}
	d.options.Port = d.server.Port()
	if err := prepare(ctx, d.server.URL("postgres"), d.OwnerURL()); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// prepare makes the database with its schema and the role that serves.
func prepare(ctx context.Context, adminURL, ownerURL string) error {
	admin, err := pgx.Connect(ctx, adminURL)
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+databaseName); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, ownerURL); err != nil {
		return err
	}
	_, err = admin.Exec(ctx, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE onceward_serve", serveLogin, servePassword))
	return err
}

func (d *plainDatabase) OwnerURL() string { return d.server.URL(databaseName) }

func (d *plainDatabase) ServeURL() string {
	u, err := url.Parse(d.OwnerURL())
	if err != nil {
		return ""
	}
	u.User = url.UserPassword(serveLogin, servePassword)
	return u.String()
}

func (d *plainDatabase) Address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(d.options.Port))
}

func (d *plainDatabase) OnMove(func(string)) {}

func (d *plainDatabase) Breaks() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"pg_kill": func(ctx context.Context) error {
			return d.again(ctx, func() error { return d.server.Kill() })
		},
		"pg_restart": func(ctx context.Context) error {
			return d.again(ctx, func() error { return d.server.Stop(ctx) })
		},
	}
}

func (d *plainDatabase) again(ctx context.Context, end func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := end(); err != nil {
		return err
	}
	server, err := privatepg.Start(ctx, d.options)
	if err != nil {
		return err
	}
	d.server = server
	return nil
}

func (d *plainDatabase) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.server.Kill() // its data go with the campaign
}
