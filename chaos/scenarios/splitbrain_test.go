package scenarios

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/chaos/pgcluster"
	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// After a failover the old primary comes back, and nobody has told it that it is none
// any more. A replica that reaches it gets no claim acknowledged, since the standby
// that has to confirm it follows another primary now: it sends nothing, whatever it is
// asked. Its answers about what was finished before the failover are right.
func TestOldPrimaryComesBack(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgcluster.Options{Standby: true})
	s := onCluster(t, c)
	r := s.replica(t, "")
	before := apptest.Refund("ch_before", 500, "run_before")
	after := apptest.Refund("ch_after", 500, "run_after")
	told := s.AskIn(t, r, before, oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
	if err := c.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := s.begin(t, "failover", 2, r) // until the replica has found the new primary
	l.wantMore(t, 2)
	l.end()
	s.AskIn(t, r, after, oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)

	old, err := c.Revive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stray := s.replica(t, c.ServeURLAt(old))
	sent := len(s.Provider.Requests())
	again := s.Ask(t, stray, before)
	if again.GetOperation().GetReceipt().GetJson() != told.GetOperation().GetReceipt().GetJson() || !again.GetReplayed() {
		t.Errorf("a duplicate of what was finished before got %v, want %v", again, told)
	}
	for _, req := range []*oncewardv1.RequestActionRequest{after, apptest.Refund("ch_new", 500, "run_new")} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		resp, err := s.Try(ctx, stray, req)
		cancel()
		switch status.Code(err) {
		case codes.Unavailable, codes.DeadlineExceeded:
		default:
			t.Errorf("through the old primary: %v, %v; want that the ledger is away", resp, err)
		}
	}
	if now := len(s.Provider.Requests()); now != sent {
		t.Errorf("%d requests were sent through the old primary; %s", now-sent, s.Describe())
	}
	if err := c.Fence(); err != nil {
		t.Fatal(err)
	}
	s.judge(t, l, time.Now())
}
