package replica

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/crashpoint"
	"github.com/onceward/onceward/internal/policies"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/internal/telemetry"
)

// policyInterval is how soon a changed policy is in force.
const policyInterval = 100 * time.Millisecond

// Run is the life of a replica: told is its Config in JSON. It returns when ctx ends
// or commands do.
func Run(ctx context.Context, told string, commands io.Reader, out, logs io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	app.TuneMemory()
	var c Config
	if err := json.Unmarshal([]byte(told), &c); err != nil { //nolint:musttag // written by the same program
		return fmt.Errorf("replica: its configuration: %w", err)
	}
	log := slog.New(slog.NewTextHandler(logs, nil)).With("replica", c.Name)
	config, watch, err := configure(ctx, c, log)
	if err != nil {
		return err
	}
	if c.Admin != "" {
		end, err := observe(ctx, c, &config)
		if err != nil {
			return err
		}
		defer end()
	}
	crasher := &crashpoint.Crasher{Die: crashpoint.Kill}
	config.WrapLedger = func(l app.Ledger) app.Ledger {
		crasher.Ledger = c.Sabotage.wrap(l)
		return crasher
	}
	service, err := app.New(ctx, config)
	if err != nil {
		return err
	}
	go watch(ctx)
	answers := &speaker{to: json.NewEncoder(out)}
	first := said{Ready: true}
	if config.Listener != nil {
		first.Address = config.Listener.Addr().String()
	}
	answers.say(first)
	go func() {
		defer stop()
		obey(commands, crasher, answers)
	}()
	return service.Run(ctx)
}

func configure(ctx context.Context, c Config, log *slog.Logger) (app.Config, func(context.Context), error) {
	adapters, err := demo.New(c.Demo)
	if err != nil {
		return app.Config{}, nil, err
	}
	registry, err1 := actions.NewRegistry(adapters...)
	keys, err2 := secrets.Load(c.SecretsDir)
	opened, err3 := policies.Open(policies.Options{Paths: []string{c.PolicyDir}, Log: log, Interval: policyInterval})
	if err := errors.Join(err1, err2, err3); err != nil {
		return app.Config{}, nil, err
	}
	config := app.Config{
		DatabaseURL: c.DatabaseURL, Secrets: keys, Registry: registry, Log: log, Policies: opened.For,
		Reconcile: c.Reconcile, ReconcileInterval: c.ReconcileInterval, ReconcileLease: c.ReconcileLease,
		LeaseGrace: c.LeaseGrace, ShutdownGrace: c.ShutdownGrace,
	}
	if c.API {
		var listen net.ListenConfig
		if config.Listener, err = listen.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return app.Config{}, nil, err
		}
	}
	return config, opened.Watch, nil
}

// censusInterval is how often open operations are counted for those who watch: a
// campaign is over in minutes.
const censusInterval = time.Second

// observe serves the replica's metrics, so that a campaign can be watched. end is called
// last.
func observe(ctx context.Context, c Config, config *app.Config) (end func(), err error) {
	seen, err := telemetry.New(ctx, telemetry.Options{Version: "chaos", Instance: c.Name})
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	if config.Admin, err = listen.Listen(ctx, "tcp", c.Admin); err != nil {
		return nil, err
	}
	config.Telemetry, config.CensusInterval = seen, censusInterval
	return func() { _ = seen.Shutdown(context.WithoutCancel(ctx)) }, nil // spans go nowhere here
}

// obey does what the campaign says until it says no more.
func obey(commands io.Reader, crasher *crashpoint.Crasher, answers *speaker) {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		command, rest, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case commandArm:
			crasher.Arm(crashpoint.Point(rest))
		case commandStats:
			answers.say(said{Stats: ownStats()})
		}
	}
}

func ownStats() *Stats {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s := &Stats{Goroutines: runtime.NumGoroutine(), HeapBytes: memory.HeapAlloc}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident int64
		if _, err := fmt.Sscan(string(statm), &size, &resident); err == nil {
			s.RSSBytes = resident * int64(os.Getpagesize())
		}
	}
	return s
}

// speaker writes lines whole.
type speaker struct {
	mu sync.Mutex
	to *json.Encoder
}

func (s *speaker) say(what said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.to.Encode(what) // nobody listens any more: the campaign is gone
}
