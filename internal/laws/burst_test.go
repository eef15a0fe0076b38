package laws

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
)

// PROVIDERS requirement 26: what a rate limit turns away uses up no attempt,
// neither of those that are deferred nor of those that a doubt may replay.
func TestRateLimitsUseUpNoAttempt(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	limited := newStub("test.limited", func(ctx context.Context, call actions.Call) actions.Outcome {
		switch calls.Add(1) {
		case 1, 2:
			return actions.Outcome{Kind: actions.RateLimited, RetryAfter: time.Millisecond}
		case 3:
			return actions.Outcome{} // lost
		default:
			return applied(ctx, call)
		}
	})
	limited.spec.MaxAttempts = 2
	limited.spec.Contract.Keys = actions.KeyRules{Honoured: true, Window: time.Hour}
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{limited}})
	r := w.Start(t, nil)
	id := start(t, w, r, stubRequest("test.limited", "key"))
	op := w.WaitFor(t, "acme", id, ledger.Succeeded, ledger.Failed, ledger.NeedsReview)
	if op.State != ledger.Succeeded || op.Attempt != 4 {
		t.Errorf("operation is %s after %d attempts: %+v", op.State, op.Attempt, op.Failure)
	}
	w.WantTrail(t, id, "claim defer claim defer claim doubt replay confirm")
}

// renderedStub is a stub whose requests cannot be made.
type renderedStub struct {
	stub
	err error
}

func (s renderedStub) Render(actions.Call) ([]byte, error) { return nil, s.err }

// Arguments that make no request are refused before anything is recorded. What
// the adapter says of an argument is passed on, and nothing else of its error.
func TestArgumentsThatMakeNoRequest(t *testing.T) {
	t.Parallel()
	named := renderedStub{newStub("test.named", applied), &actions.ArgumentsError{Violations: []actions.Violation{{
		Field: "order", Reason: actions.ReasonFormat, Message: "makes no segment of a path",
	}}}}
	mute := renderedStub{newStub("test.mute", applied), context.DeadlineExceeded}
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{named, mute}})
	r := w.Start(t, nil)
	for actionType, want := range map[string]string{
		"test.named": "arguments.order: makes no segment of a path", "test.mute": "make no request",
	} {
		_, err := r.Actions.RequestAction(apptest.As(t.Context(), w.Agent), stubRequest(actionType, actionType))
		got := apptest.WantReason(t, err, codes.InvalidArgument, "INVALID_ARGUMENTS")
		if !strings.Contains(got.Message(), want) || strings.Contains(got.Message(), context.DeadlineExceeded.Error()) {
			t.Errorf("%s: %q, want %q", actionType, got.Message(), want)
		}
	}
	if n := records(t, w); n != 0 {
		t.Errorf("%d operations recorded", n)
	}
}
