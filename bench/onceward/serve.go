package onceward

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/stats"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/bench/child"
	"github.com/onceward/onceward/bench/naive"
	"github.com/onceward/onceward/bench/noop"
	"github.com/onceward/onceward/bench/telemetry"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/policy"
)

// The ledgers that a server can have.
const (
	Grouped = "grouped"
	Naive   = "naive"
)

// Serve runs the server in this process until in ends. Asked for "effects" it
// says how often the provider was called.
func Serve(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	database := flags.String("database", "", "URL of the serving role")
	secretsDir := flags.String("secrets", "", "folder of the secrets")
	book := flags.String("ledger", Grouped, "grouped or naive")
	connections := flags.Int("naive-connections", 16, "connections of the naive ledger")
	observed := flags.Bool("telemetry", true, "record spans and metrics")
	replays := flags.Bool("replays", true, "answer duplicates from memory")
	level := flags.String("log", "warn", "log level")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var logLevel slog.Level
	if err := logLevel.UnmarshalText([]byte(*level)); err != nil {
		return err
	}
	app.TuneMemory()
	adapter := &noop.Adapter{}
	config := app.Config{
		Policies:    policy.AllowAll().For,
		DatabaseURL: *database, Reconcile: true, ReconcileInterval: time.Second,
		Log: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel})),
	}
	if !*replays {
		config.ReplayBytes = -1
	}
	if config.Secrets, err = secrets.Load(*secretsDir); err != nil {
		return err
	}
	if config.Registry, err = actions.NewRegistry(adapter); err != nil {
		return err
	}
	if *observed {
		handler, shutdown := telemetry.New()
		defer func() { err = errors.Join(err, shutdown(context.WithoutCancel(ctx))) }()
		config.StatsHandlers = []stats.Handler{handler}
	}
	if *book == Naive {
		pool, err := pgxpool.New(ctx, *database+"&pool_max_conns="+strconv.Itoa(*connections))
		if err != nil {
			return err
		}
		defer pool.Close()
		config.WrapLedger = func(store app.Ledger) app.Ledger { return naive.Steps(store, pool) }
	}
	var listening net.ListenConfig
	if config.Listener, err = listening.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	service, err := app.New(ctx, config)
	if err != nil {
		return errors.Join(err, config.Listener.Close())
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- service.Run(running) }()
	err = child.Serve(config.Listener.Addr(), in, out, func(line string) (string, error) {
		if line != "effects" {
			return "", fmt.Errorf("unknown line %q", line)
		}
		return strconv.FormatInt(adapter.Effects(), 10), nil
	})
	stop()
	return errors.Join(err, <-ended)
}
