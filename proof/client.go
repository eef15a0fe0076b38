package proof

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/apikey"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger/postgres"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// client talks to the Onceward of a run as any planner does.
type client struct {
	api      oncewardv1.ActionServiceClient
	patience time.Duration
	keys     map[string]string // of an agent, by tenant
}

// request asks for the action of a stage and waits until it is settled or before
// a person, at most for as long as the run is patient.
func (c *client) request(ctx context.Context, s *stage, args actions.Arguments) (*oncewardv1.RequestActionResponse, error) {
	req := &oncewardv1.RequestActionRequest{
		ActionType:    s.spec.Type,
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: string(args.JSON())},
		Run:           &oncewardv1.RunContext{RunId: "proof", StepId: s.path.name, Agent: "proof"},
		Wait:          durationpb.New(c.patience),
	}
	if s.tenant == s.path.name {
		// The tenant is shared with other subjects, whose recipes may compose the
		// same key of their examples.
		req.IdempotencyKey = s.spec.Type
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.keys[s.tenant])
	return c.api.RequestAction(ctx, req)
}

// service is a running Onceward and the ledger as its owner sees it.
type service struct {
	client
	owner  *postgres.Store
	ends   []func() error
	closed sync.Once
}

// Close ends everything, the last first.
func (s *service) Close() error {
	var errs []error
	s.closed.Do(func() {
		for i := len(s.ends) - 1; i >= 0; i-- {
			errs = append(errs, s.ends[i]())
		}
	})
	return errors.Join(errs...)
}

// serve starts an Onceward with the adapters of all subjects. Close it.
func serve(ctx context.Context, o Options, adapters []actions.Adapter, tenants []string, stages *stages) (_ *service, err error) {
	s := &service{client: client{patience: o.Patience, keys: map[string]string{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	registry, err := actions.NewRegistry(adapters...)
	if err != nil {
		return nil, err
	}
	if s.owner, err = postgres.Open(ctx, o.OwnerURL); err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { s.owner.Close(); return nil })
	if err := s.addTenants(ctx, tenants); err != nil {
		return nil, fmt.Errorf("tenants: %w", err)
	}
	keys, err := newSecrets()
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() error { _ = listener.Close(); return nil }) // the app has closed it, if there is one
	onceward, err := app.New(ctx, app.Config{
		Policies:    policy.AllowAll().For,
		DatabaseURL: o.ServeURL, Secrets: keys, Registry: registry, Log: o.Log, Listener: listener,
		Reconcile: true, ReconcileInterval: reconcileInterval, ReconcileLease: reconcileLease,
		LeaseGrace: leaseGrace, ShutdownGrace: shutdownGrace,
		WrapLedger: func(l app.Ledger) app.Ledger { return brisk{l, stages} },
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- onceward.Run(running) }()
	s.ends = append(s.ends, func() error { stop(); return <-done })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, conn.Close)
	s.api = oncewardv1.NewActionServiceClient(conn)
	return s, nil
}

// addTenants makes tenants with an agent each.
func (s *service) addTenants(ctx context.Context, tenants []string) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, tenant := range tenants {
		group.Go(func() error {
			if err := s.owner.CreateTenant(ctx, tenant); err != nil {
				return err
			}
			key := apikey.New(tenant)
			hash := key.Hash()
			err := s.owner.AddCredential(ctx, postgres.Credential{Tenant: tenant, KeyID: key.ID, Hash: hash[:], Actor: "proof", Roles: []string{"agent"}})
			mu.Lock()
			defer mu.Unlock()
			s.keys[tenant] = key.Text()
			return err
		})
	}
	return group.Wait()
}

// newSecrets makes the secrets of an installation that ends with the run.
func newSecrets() (_ *secrets.Secrets, err error) {
	dir, err := os.MkdirTemp("", "onceward-proof-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files := filepath.Join(dir, "secrets")
	if err := secrets.Create(files); err != nil {
		return nil, err
	}
	return secrets.Load(files)
}
