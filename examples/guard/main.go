package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceward/onceward/guard"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("guard example", "error", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	keys, err := guard.NewRemoteKeys(guard.RemoteOptions{URL: cmp.Or(os.Getenv("KEYS_URL"), "http://127.0.0.1:7090/.well-known/jwks.json")})
	if err != nil {
		return err
	}
	// What this service holds is in memory, and so is what it remembers: both end
	// together. One with a database takes guardsql.
	handler, err := newHandler(keys, os.Getenv("ISSUER"), guard.NewMemory(guard.MemoryOptions{}), log)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:7091"), Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			log.Warn("calls were cut off", "error", err)
		}
	})
	log.Info("listening", "address", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
