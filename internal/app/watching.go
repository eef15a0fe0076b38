package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/admin"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
)

var _ postgres.Observer = (*telemetry.Ledger)(nil)

// censusInterval is between two counts of what is open in the ledger. Every replica
// that reconciles counts, and all tell the same.
const censusInterval = 15 * time.Second

// ErrOpenAdmin: others could reach the admin listener and there is no token.
var ErrOpenAdmin = errors.New("metrics name tenants: beyond loopback the admin listener wants a token (--admin-token-file), or listen on 127.0.0.1")

// checkAdmin refuses an admin listener that tells strangers more than whether the
// process is ready.
func checkAdmin(c Config) error {
	switch {
	case c.Admin == nil || loopback(c.Admin.Addr()):
		return nil
	case c.AdminTLS == nil:
		return fmt.Errorf("admin: %s: %w", c.Admin.Addr(), ErrPlainText)
	case c.AdminToken == "":
		return fmt.Errorf("admin: %s: %w", c.Admin.Addr(), ErrOpenAdmin)
	}
	return nil
}

// openStore opens the ledger, observed if somebody is there to observe it.
func openStore(ctx context.Context, c Config) (*postgres.Store, error) {
	if c.Telemetry == nil {
		return postgres.Open(ctx, c.DatabaseURL)
	}
	store, err := postgres.Open(ctx, c.DatabaseURL, postgres.ObservedBy(c.Telemetry.Ledger))
	if err == nil {
		c.Telemetry.Ledger.Load(store.Load)
	}
	return store, err
}

// newProbe looks at the ledger, for health checks, readiness and metrics.
func (a *App) newProbe() *admin.Probe {
	return admin.NewProbe(admin.ProbeOptions{
		Look: a.look, Interval: a.ProbeInterval,
		Looked: func(err error) {
			if a.Telemetry != nil {
				a.Telemetry.Ledger.Looked(err == nil)
			}
		},
		Changed: func(err error) {
			a.server.LedgerAnswers(err == nil)
			if err != nil {
				a.Log.Error("the ledger is away: not ready, nothing is sent", "error", err)
				return
			}
			a.Log.Info("the ledger is back: ready")
		},
	})
}

// look looks at the ledger once, and tells when a recovery begins to be in force or has
// ended.
func (a *App) look(ctx context.Context) error {
	restored, err := a.store.Look(ctx)
	if err == nil && a.recovering.Swap(restored) && !restored {
		a.Log.Info("the recovery of the restored ledger has ended: new operations are sent again")
	}
	return err
}

// newAdmin makes the server of those who run the process; nil where it has no listener.
func (a *App) newAdmin() (*http.Server, error) {
	if a.Admin == nil {
		return nil, nil
	}
	o := admin.Options{Log: a.Log, Ready: a.ready, Token: a.AdminToken, Profiles: a.AdminProfiles}
	if a.Telemetry != nil {
		o.Metrics = a.Telemetry.Registry
	}
	return admin.New(o)
}

// ready says whether requests may be sent here. Files that changed and were refused do
// not count: the ones before are in use.
func (a *App) ready() []admin.Check {
	checks := append(ledgerChecks(a.probe.Err()),
		check("definitions", len(a.Registry.All()) > 0, "there are no action types"),
		check("policies", a.Policies != nil, "there are no policies"),
	)
	if a.recovering.Load() { // nothing that another replica would do otherwise
		checks = append(checks, admin.Check{Name: "recovery", OK: true, Reason: "the ledger was restored from a backup: new operations are recorded in doubt and not sent"})
	}
	if a.leaving.Load() {
		return append(checks, check("staying", false, "the process is shutting down"))
	}
	return append(checks, check("staying", true, ""))
}

// ledgerChecks says what a look at the ledger means, to strangers.
func ledgerChecks(err error) []admin.Check {
	switch {
	case err == nil:
		return []admin.Check{check("ledger", true, ""), check("schema", true, "")}
	case errors.Is(err, postgres.ErrOldSchema):
		return []admin.Check{check("ledger", true, ""), check("schema", false, "the ledger has another schema than this program")}
	case errors.Is(err, postgres.ErrStandby):
		return []admin.Check{check("ledger", false, "it is a read-only standby"), check("schema", false, "not known now")}
	default:
		return []admin.Check{check("ledger", false, "it does not answer"), check("schema", false, "not known now")}
	}
}

// check is one with its reason where it does not hold.
func check(name string, ok bool, otherwise string) admin.Check {
	c := admin.Check{Name: name, OK: ok}
	if !ok {
		c.Reason = otherwise
	}
	return c
}

// leave makes the process not ready, for load balancers and health checks. What is
// sent here meanwhile is served.
func (a *App) leave() {
	a.leaving.Store(true)
	a.server.Leave()
}

// untilAsked is the actor that ends the group DrainDelay after ctx has ended.
func (a *App) untilAsked(ctx context.Context) (execute func() error, interrupt func(error)) {
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	return func() error {
			select {
			case <-over.Done(): // somebody else has ended it
				return errAsked
			case <-ctx.Done():
			}
			a.leave()
			delay := time.NewTimer(a.DrainDelay)
			defer delay.Stop()
			select {
			case <-over.Done():
			case <-delay.C:
			}
			return errAsked
		}, func(error) {
			a.leave()
			end()
		}
}

// watch looks at the ledger, and counts what is open in it, until stop is called,
// which waits for that.
func (a *App) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.probe.Run(ctx) })
	if a.Reconcile && a.Telemetry != nil {
		work.Go(func() { a.countOpen(ctx) })
	}
	return func() { cancel(); work.Wait() }
}

// countOpen tells what is open in the ledger until ctx ends.
func (a *App) countOpen(ctx context.Context) {
	tick := time.NewTicker(a.CensusInterval)
	defer tick.Stop()
	for {
		census, err := a.store.Census(ctx)
		if ctx.Err() != nil {
			return
		}
		a.Telemetry.Ledger.Counted(census, err == nil)
		// That the ledger is away is said elsewhere.
		if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
			a.Log.Error("open operations were not counted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// serveAdmin serves until the server is closed; failed gets what ends it before.
func (a *App) serveAdmin(failed chan<- error) {
	listener := a.bounded(a.Admin)
	if a.AdminTLS != nil {
		listener = tls.NewListener(listener, a.AdminTLS)
	}
	if err := a.admin.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		failed <- fmt.Errorf("admin: %w", err)
	}
}

// unlessFailed is the actor that ends the group when failed says so.
func unlessFailed(failed <-chan error) (execute func() error, interrupt func(error)) {
	over, end := context.WithCancel(context.Background())
	return func() error {
		select {
		case err := <-failed:
			return err
		case <-over.Done():
			return nil
		}
	}, func(error) { end() }
}
