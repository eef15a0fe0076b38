package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A caller waits for an operation, which fails, and is corrected, before it hears of
// it: the receipt of the other arguments is no answer to its own. (A fault campaign
// found it.)
func TestCorrectedWhileACallerWaits(t *testing.T) {
	t.Parallel()
	draining, drain := context.WithCancel(t.Context())
	defer drain()
	s := &Server{
		Options: Options{Log: quiet()}, waiters: newWaiters(nil, quiet()), replays: newReplays(0), fates: newFates(), draining: draining,
		tallies: newTallies(func(context.Context, string, []ledger.Tally) error { return nil }, quiet()),
	}
	asked := ledger.Operation{Tenant: "acme", ID: "01a22ac0-0000-7000-8000-000000000001", Key: "k", State: ledger.Running, ArgsHash: ledger.Hash{1}, Revision: 1}
	for name, test := range map[string]struct {
		hash    ledger.Hash
		refused bool
	}{"corrected": {ledger.Hash{2}, true}, "its own": {ledger.Hash{1}, false}} {
		t.Run(name, func(t *testing.T) {
			news := asked
			news.State, news.ArgsHash, news.Revision, news.Receipt = ledger.Succeeded, test.hash, 5, []byte(`{"id":"em_1"}`)
			type answer struct {
				resp *oncewardv1.RequestActionResponse
				err  error
			}
			answers := make(chan answer, 1)
			go func() {
				resp, err := s.respond(t.Context(), &oncewardv1.RequestActionRequest{Wait: durationpb.New(time.Minute)},
					found{op: &asked, disposition: oncewardv1.Disposition_DISPOSITION_JOINED})
				answers <- answer{resp, err}
			}()
			<-s.waiters.wake // it waits
			s.waiters.publish(&news)
			got := <-answers
			var reused *ledger.KeyReusedError
			if refused := errors.As(got.err, &reused); refused != test.refused {
				t.Errorf("the answer is %v, %v", got.resp, got.err)
			}
		})
	}
}
