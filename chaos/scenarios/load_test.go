package scenarios

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// callTimeout is how long a caller waits for one answer before it asks again.
const callTimeout = 1500 * time.Millisecond

// load is callers who ask, and repeat what they asked until they have a receipt,
// whatever they get meanwhile: what agents do.
type load struct {
	s    *stage
	name string
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	told     map[string]*oncewardv1.Receipt     // by operation
	asked    []*oncewardv1.RequestActionRequest // that have a receipt
	calls    int
	refusals map[string]int // by code and reason
}

// begin starts callers on replicas, in turns. It must be ended.
func (s *stage) begin(t *testing.T, name string, callers int, replicas ...*apptest.Replica) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{s: s, name: name, stop: stop, told: map[string]*oncewardv1.Receipt{}, refusals: map[string]int{}}
	for i := range callers {
		l.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				req := l.request(i, n)
				if err := l.until(t.Context(), replicas[(i+n)%len(replicas)], req); err != nil {
					t.Errorf("caller %d: %s: %v", i, req.GetActionType(), err)
					return
				}
			}
		})
	}
	t.Cleanup(func() { stop(); l.done.Wait() })
	return l
}

// request is one of the four kinds of action, each with another way to be sure.
func (l *load) request(caller, n int) *oncewardv1.RequestActionRequest {
	name := fmt.Sprintf("%s_%d_%d", l.name, caller, n)
	var req *oncewardv1.RequestActionRequest
	switch (caller + n) % 4 {
	case 0:
		req = apptest.Refund("ch_"+name, 500, "run_"+name)
	case 1:
		req = apptest.Invoice(name)
	case 2:
		req = apptest.Contact(name + "@example.test")
	default:
		req = apptest.Note(name, "run_"+name)
	}
	req.Wait = durationpb.New(callTimeout)
	return req
}

// until asks until there is a receipt or a person is to decide. Errors by which a
// server says "later" are taken at their word; any other one ends the test.
func (l *load) until(ctx context.Context, r *apptest.Replica, req *oncewardv1.RequestActionRequest) error {
	ctx, cancel := context.WithTimeout(ctx, 2*apptest.Patience)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	var last any
	for {
		resp, err := l.ask(ctx, r, req)
		op := resp.GetOperation()
		switch {
		case err != nil:
			last = err
			switch status.Code(err) {
			case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
			default:
				return err
			}
		case op.GetState() == oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED:
			l.keep(req, op)
			return nil
		case op.GetState() == oncewardv1.OperationState_OPERATION_STATE_NEEDS_REVIEW:
			return nil
		default:
			last = op
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not answered in time; last: %v", last)
		case <-pause.C:
		}
	}
}

func (l *load) ask(ctx context.Context, r *apptest.Replica, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+500*time.Millisecond)
	defer cancel()
	resp, err := l.s.Try(ctx, r, req)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if err != nil {
		l.refusals[status.Code(err).String()+" "+apptest.ReasonOf(err)]++
	}
	return resp, err
}

// keep remembers a receipt.
func (l *load) keep(req *oncewardv1.RequestActionRequest, op *oncewardv1.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[op.GetId()] = op.GetReceipt()
	l.asked = append(l.asked, req)
}

// receipts are what callers were told. The load must have ended.
func (l *load) receipts() map[string]*oncewardv1.Receipt { return l.told }

func (l *load) counts() (told, refusals, calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.refusals {
		refusals += n
	}
	return len(l.told), refusals, l.calls
}

// wantMore waits until so many more requests have a receipt.
func (l *load) wantMore(t *testing.T, more int) {
	t.Helper()
	before, _, _ := l.counts()
	apptest.Eventually(t, func() bool { now, _, _ := l.counts(); return now >= before+more }, func() string {
		return fmt.Sprintf("%d more receipts, of %s", more, l)
	})
}

// wantRefusals waits until callers have noticed.
func (l *load) wantRefusals(t *testing.T, more int) {
	t.Helper()
	_, before, _ := l.counts()
	apptest.Eventually(t, func() bool { _, now, _ := l.counts(); return now >= before+more }, func() string {
		return fmt.Sprintf("%d more refusals, of %s", more, l)
	})
}

// goOn lets the load run for some calls, or for a while when they do not end.
func (l *load) goOn(calls int, atMost time.Duration) {
	_, _, before := l.counts()
	enough := time.After(atMost)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-enough:
			return
		case <-tick.C:
			if _, _, now := l.counts(); now >= before+calls {
				return
			}
		}
	}
}

// end lets every caller finish what it is asking for.
func (l *load) end() {
	l.stop()
	l.done.Wait()
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d receipts in %d calls, refused %v", len(l.told), l.calls, l.refusals)
}

// repeat asks once more for everything that was told, and wants the same receipts.
func (s *stage) repeat(t *testing.T, l *load, r *apptest.Replica) {
	t.Helper()
	for _, req := range l.asked {
		resp := s.Ask(t, r, req)
		op := resp.GetOperation()
		if told := l.told[op.GetId()]; told == nil || !resp.GetReplayed() || !proto.Equal(told, op.GetReceipt()) {
			t.Errorf("%s asked again: operation %s with %v, replayed %t; told was %v", req.GetActionType(), op.GetId(), op.GetReceipt(), resp.GetReplayed(), told)
		}
	}
}
