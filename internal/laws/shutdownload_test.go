package laws

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// A process that is told to stop while hundreds of callers wait: each of them gets
// an answer, or is told UNAVAILABLE and nothing was recorded for it; no attempt is
// left to its lease; and whoever asks another process again gets what was done, once.
// Several rounds, each with the successor of the one before.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	w.Provider.ForMatch(func(r *http.Request, _ []byte) bool { return r.Method == http.MethodPost }, fakeprovider.Fault{Kind: fakeprovider.Delay, Delay: 50 * time.Millisecond, Times: -1})
	const rounds, callers = 3, 200
	leaving := w.StartChild(t, apptest.ChildOptions{})
	for round := range rounds {
		successor := w.StartChild(t, apptest.ChildOptions{})
		type answer struct {
			resp *oncewardv1.RequestActionResponse
			err  error
		}
		answers := make([]answer, callers)
		request := func(i int) *oncewardv1.RequestActionRequest {
			return apptest.Refund(fmt.Sprintf("ch_%d_%d", round, i), 5, fmt.Sprintf("run_%d_%d", round, i))
		}
		sent := len(w.Provider.Requests())
		told := make(chan struct{})
		together(callers+1, func(i int) {
			if i == callers {
				// In the middle: some are done, some under way, some not begun.
				if err := w.Provider.WaitRequests(t.Context(), sent+callers/4); err != nil {
					t.Error(err)
				}
				if err := leaving.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
				close(told)
				return
			}
			if i%4 == 3 { // these come while it is leaving, or after
				<-told
			}
			answers[i].resp, answers[i].err = w.Try(t.Context(), leaving.Replica, request(i))
		})
		leaving.WaitExit(t)
		answered, refused := 0, 0
		for i, a := range answers {
			switch status.Code(a.err) {
			case codes.OK:
				answered++
			case codes.Unavailable:
				refused++
				if n := w.Database.Count(t, `SELECT count(*) FROM operations WHERE run_id = $1`, request(i).GetRun().GetRunId()); n != 0 {
					t.Errorf("round %d, caller %d was told %v, and there is an operation", round, i, a.err)
				}
			default:
				t.Errorf("round %d, caller %d: %v", round, i, a.err)
			}
		}
		t.Logf("round %d: %d answered, %d refused before anything was recorded", round, answered, refused)
		if answered == 0 {
			t.Error("nobody was answered: it stopped before its callers came")
		}
		together(callers, func(i int) { answers[i].resp, answers[i].err = w.Try(t.Context(), successor.Replica, request(i)) })
		for i, a := range answers {
			if a.err != nil || a.resp.GetOperation().GetState() != succeeded {
				t.Fatalf("round %d, caller %d at the successor: %v %v", round, i, a.resp, a.err)
			}
		}
		leaving = successor
	}
	w.WantEffects(t, rounds*callers)
	for what, query := range map[string]string{
		"operations did not succeed":  `SELECT count(*) FROM operations WHERE status <> 'succeeded'`,
		"operations were in doubt":    `SELECT count(*) FROM audit_events WHERE event = 'doubt'`,
		"operations were tried twice": `SELECT count(*) FROM operations WHERE attempt <> 1`,
	} {
		if n := w.Database.Count(t, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}
