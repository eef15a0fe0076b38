package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const ledgerUnavailable = "LEDGER_UNAVAILABLE"

// ownServer is a world on a Postgres of its own, which the test may stop.
func ownServer(t *testing.T) (*apptest.World, *pgtest.Server) {
	t.Helper()
	server := pgtest.NewServer(t, nil)
	database := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	return apptest.New(t, apptest.Options{Database: &database}), server
}

// A receipt comes back while Postgres is away: it is kept and recorded when
// Postgres is there again. Meanwhile nothing is sent.
func TestLaw02_ReceiptWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	w, server := ownServer(t)
	r := w.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(heldAfter(gate))
	req := invoice().request("away")
	first := make(chan answer, 1)
	go func() {
		resp, err := w.Try(t.Context(), r, req)
		first <- answer{resp, err}
	}()
	await(t, "the request at the provider", gate.Reached())
	server.Stop(t)
	gate.Release()
	provided(t, w.Provider.WaitFinished, 1)
	for _, act := range everyAction() {
		_, err := w.Try(t.Context(), r, act.request("meanwhile"))
		st := apptest.WantReason(t, err, codes.Unavailable, ledgerUnavailable)
		if !hasRetryInfo(st) {
			t.Errorf("no RetryInfo in %v", st.Details())
		}
	}
	if n := len(w.Provider.Requests()); n != 1 {
		t.Errorf("%d requests went out without a ledger; %s", n-1, w.Describe())
	}
	server.Start(t)

	got := <-first
	op := wantOneReceipt(t, w, []answer{got}, 1)
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "claim confirm")
	w.AskIn(t, r, refund().request("meanwhile"), succeeded)
	wantSound(t, w)
}

func hasRetryInfo(st *status.Status) bool {
	for _, d := range st.Details() {
		if _, ok := d.(*errdetails.RetryInfo); ok {
			return true
		}
	}
	return false
}

// Postgres is killed, and then stopped, while requests run.
func TestKillPostgresUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, each = 12, 8
	w, server := ownServer(t)
	replicas := []*apptest.Replica{w.Start(t, nil), w.Start(t, nil)}
	load := &load{w: w, acknowledged: map[string]*oncewardv1.Receipt{}}
	ctx, enough := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := 0; n < each || ctx.Err() == nil; n++ {
				act := everyAction()[(i+n)%4]
				if err := load.until(t.Context(), replicas[(i+n)%2], act.request(fmt.Sprintf("load_%d_%d", i, n))); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	rest := sync.OnceFunc(func() { enough(); all.Wait() })
	t.Cleanup(rest)
	for _, end := range []func(testing.TB){server.Kill, server.Stop} {
		load.wantMore(t, callers)
		end(t)
		load.wantRefusals(t)
		server.Start(t)
	}
	load.wantMore(t, callers)
	enough()

	// A claim whose answer was lost with its connection has no worker. Its
	// callers wait for its lease, which ends now.
	settled := make(chan struct{})
	go func() { all.Wait(); close(settled) }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-settled:
			waiting = false
		case <-tick.C:
			ops, err := w.Owner().List(t.Context(), "acme", ledger.Filter{States: []ledger.State{ledger.Running}}, "", 100)
			if err != nil {
				t.Logf("not counted: %v", err) // a connection from before
			}
			for _, op := range ops {
				endLease(t, w, op)
			}
		}
	}
	for id, receipt := range load.acknowledged {
		op := w.Held(t, id)
		if now := (&oncewardv1.Receipt{ProviderReference: op.ProviderReference, Json: string(op.Receipt)}); !proto.Equal(now, receipt) {
			t.Errorf("operation %s was acknowledged with %v and has %v", id, receipt, now)
		}
		w.WantOneEffect(t, id)
	}
	t.Logf("%d acknowledged, %d refusals", len(load.acknowledged), load.refusals)
	wantSound(t, w)
}

// load is what callers of a ledger that comes and goes were told.
type load struct {
	w *apptest.World

	mu           sync.Mutex
	acknowledged map[string]*oncewardv1.Receipt // by operation
	refusals     int
}

// until repeats a request until it has a receipt, as callers are told to. It
// fails on any error but that of a ledger that is away.
func (l *load) until(ctx context.Context, r *apptest.Replica, req *oncewardv1.RequestActionRequest) error {
	ctx, cancel := context.WithTimeout(ctx, 2*apptest.Patience)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		resp, err := l.w.Try(ctx, r, req)
		switch {
		case err != nil && status.Code(err) == codes.Unavailable && reasonOf(err) == ledgerUnavailable:
			l.mu.Lock()
			l.refusals++
			l.mu.Unlock()
		case err != nil:
			return err
		case resp.GetOperation().GetState() == succeeded:
			l.mu.Lock()
			l.acknowledged[resp.GetOperation().GetId()] = resp.GetOperation().GetReceipt()
			l.mu.Unlock()
			return nil
		case resp.GetNextStep().GetKind() != oncewardv1.NextStepKind_NEXT_STEP_KIND_WAIT:
			return fmt.Errorf("ended as %v", resp)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
	}
}

func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func (l *load) counts() (acknowledged, refusals int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged), l.refusals
}

// wantMore waits until so many more requests were acknowledged.
func (l *load) wantMore(t *testing.T, more int) {
	t.Helper()
	before, _ := l.counts()
	apptest.Eventually(t, func() bool { now, _ := l.counts(); return now >= before+more }, func() string { return "acknowledged requests" })
}

// wantRefusals waits until callers noticed that the ledger is away.
func (l *load) wantRefusals(t *testing.T) {
	t.Helper()
	_, before := l.counts()
	apptest.Eventually(t, func() bool { _, now := l.counts(); return now > before }, func() string { return "refused requests" })
}
