package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// The caller leaves before the answer. The write goes on, and the next request
// with the key gets its receipt.
func TestCallerLeavesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code codes.Code
		hold func(*fakeprovider.Gate) fakeprovider.Fault
	}{
		{"cancels before it is applied", codes.Canceled, heldBefore},
		{"cancels after it was applied", codes.Canceled, heldAfter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := apptest.New(t, apptest.Options{})
			r := w.Start(t, nil)
			gate := fakeprovider.NewGate()
			t.Cleanup(gate.Release)
			w.Provider.Next(c.hold(gate))
			req := invoice().request("left")
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error, 1)
			go func() {
				_, err := w.Try(ctx, r, req)
				left <- err
			}()
			await(t, "the request at the provider", gate.Reached())
			leave()
			if err := <-left; status.Code(err) != c.code {
				t.Errorf("the caller who left got %v, want %s", err, c.code)
			}
			gate.Release()
			op := w.AskIn(t, r, req, succeeded).GetOperation()
			w.WantOneEffect(t, op.GetId())
			w.WantTrail(t, op.GetId(), "claim confirm")
			wantSound(t, w)
		})
	}
}

// The caller leaves while the claim is on its way to the ledger: what may have
// been committed is seen through.
func TestCallerLeavesDuringTheClaim(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	door := newDoor()
	t.Cleanup(door.release)
	r := w.Start(t, func(c *app.Config) {
		c.WrapLedger = func(l app.Ledger) app.Ledger { door.Ledger = l; return door }
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.Try(ctx, r, refund().request("claim"))
		left <- err
	}()
	await(t, "the claim", door.reached)
	leave()
	if err := <-left; status.Code(err) != codes.Canceled {
		t.Errorf("the caller who left got %v", err)
	}
	// A call on the same connection is served after the cancellation was read.
	if _, err := r.Catalog.ListActionTypes(apptest.As(t.Context(), w.Agent), &oncewardv1.ListActionTypesRequest{}); err != nil {
		t.Fatal(err)
	}
	door.release()
	provided(t, w.Provider.WaitEffects, 1)
	op := w.AskIn(t, r, refund().request("claim"), succeeded).GetOperation()
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "claim confirm")
	wantSound(t, w)
}

// The caller's deadline is nearer than the answer: the call is answered in
// time, with what is known, and the write goes on.
func TestCallersDeadlineShortensTheWait(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	gate := fakeprovider.NewGate()
	t.Cleanup(gate.Release)
	w.Provider.Next(heldAfter(gate))
	req := refund().request("deadline")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	resp, err := w.Try(ctx, r, req)
	switch {
	case status.Code(err) == codes.DeadlineExceeded: // on a slow machine
	case err != nil:
		t.Fatal(err)
	case resp.GetOperation().GetState() != running || resp.GetDisposition() != accepted:
		t.Errorf("got %v before the provider answered", resp)
	}
	await(t, "the request at the provider", gate.Reached())
	gate.Release()
	op := w.AskIn(t, r, req, succeeded).GetOperation()
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "claim confirm")
	wantSound(t, w)
}

// Two hundred callers send one key, and half of them leave at any moment.
func TestManyCallersOfWhomHalfLeave(t *testing.T) {
	t.Parallel()
	const callers, seed = 200, 20
	w := apptest.New(t, apptest.Options{})
	replicas := []*apptest.Replica{w.Start(t, nil), w.Start(t, nil)}
	random := rand.New(rand.NewPCG(seed, seed))
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DelayAfterApplying, Delay: 150 * time.Millisecond})
	req := contact().request("leavers")

	answers := make([]answer, callers)
	var all sync.WaitGroup
	for i := range callers {
		patience := apptest.Patience
		if i%2 == 0 {
			patience = time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		}
		all.Go(func() {
			// Not a deadline, which the server would see and obey.
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			defer time.AfterFunc(patience, leave).Stop()
			answers[i].resp, answers[i].err = w.Try(ctx, replicas[i/2%2], req)
		})
	}
	all.Wait()
	var stayed []answer
	for i, got := range answers {
		switch {
		case i%2 == 0 && status.Code(got.err) == codes.Canceled:
		case got.err != nil:
			t.Errorf("seed %d: caller %d: %v", seed, i, got.err)
		default:
			stayed = append(stayed, got)
		}
	}
	stayed = append(stayed, answer{resp: w.AskIn(t, replicas[0], req, succeeded)})
	made := 0
	for _, got := range stayed {
		if got.resp.GetDisposition() == executed {
			made++
		}
	}
	if made > 1 {
		t.Errorf("%d callers were told that they caused the action", made)
	}
	op := wantOneReceipt(t, w, stayed, made)
	w.WantOneEffect(t, op.GetId())
	w.WantTrail(t, op.GetId(), "claim confirm")
	if n := writes(w, "leavers"); n != 1 {
		t.Errorf("%d writes, want 1; %s", n, w.Describe())
	}
	wantSound(t, w)
}
