package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/bench/machine"
	"github.com/onceward/onceward/internal/privatepg"
)

// serverSettings are what every contestant gets: a commit is on disk when it
// returns, and no checkpoint falls into a measurement. The cache is a quarter of
// the memory, as the PostgreSQL manual proposes (section 20.4.1).
func serverSettings(memoryGiB float64, more map[string]string) map[string]string {
	settings := map[string]string{
		"fsync":                        "on",
		"synchronous_commit":           "on",
		"full_page_writes":             "on",
		"shared_buffers":               fmt.Sprintf("%dMB", max(256, int(memoryGiB*1024/4))),
		"max_wal_size":                 "16GB",
		"min_wal_size":                 "2GB",
		"checkpoint_timeout":           "30min",
		"checkpoint_completion_target": "0.9",
		"max_connections":              "500",
		"shared_preload_libraries":     "",
	}
	maps.Copy(settings, more)
	return settings
}

// startPostgres starts the one server that all contestants share.
func startPostgres(ctx context.Context, dir string, more map[string]string) (*privatepg.Server, error) {
	return privatepg.Start(ctx, privatepg.Options{
		Dir: dir, Settings: serverSettings(machine.Describe().MemoryGiB, more),
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// describePostgres reads the version and the settings that matter, as the server
// has them.
func describePostgres(ctx context.Context, url string, postmaster int) (version string, settings map[string]string, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := conn.QueryRow(ctx, `SHOW server_version`).Scan(&version); err != nil {
		return "", nil, err
	}
	rows, err := conn.Query(ctx, `SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY ($1)`, []string{
		"fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_compression", "shared_buffers",
		"max_wal_size", "checkpoint_timeout", "max_connections", "autovacuum", "jit",
	})
	if err != nil {
		return "", nil, err
	}
	settings = map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error { settings[name] = value; return nil })
	if err == nil && (settings["fsync"] != "on" || settings["synchronous_commit"] != "on") {
		err = fmt.Errorf("the server does not keep what it acknowledges: fsync=%s, synchronous_commit=%s", settings["fsync"], settings["synchronous_commit"])
	}
	if has, ok := machine.HugePages(postmaster); has {
		settings["huge_pages"] = "in use"
	} else if ok {
		settings["huge_pages"] = "not in use"
	}
	return version, settings, err
}
