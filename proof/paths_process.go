package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// processPaths: the provider cannot be reached, or the worker dies.
func processPaths() []*path {
	return []*path{
		{name: "unreachable", title: "the connection is refused, once", prepare: prepareUnreachable},
		{name: "killed-before-sending", title: "the worker is killed between its claim and the request", prepare: func(s *stage) error {
			s.dies = beforeSending
			return nil
		}},
		{name: "killed-after-sending", title: "the worker is killed between the effect and its record", prepare: func(s *stage) error {
			s.dies = afterSending
			return nil
		}},
	}
}

// prepareUnreachable lets nobody connect until the first attempt is over.
func prepareUnreachable(s *stage) error {
	s.after = func(_ context.Context, n int) error {
		if n > 1 {
			return nil
		}
		return s.target.Resume()
	}
	return s.target.Pause()
}

// playRepeated asks twice, one after the other.
func playRepeated(ctx context.Context, s *stage, c *client) (judgement, error) {
	first, err := c.request(ctx, s, s.example)
	if err != nil {
		return judgement{}, err
	}
	sent := len(s.target.Requests())
	second, err := c.request(ctx, s, s.example)
	if err != nil {
		return judgement{}, err
	}
	if j := sameAnswer(first, second); j.verdict != Safe {
		return j, nil
	}
	switch finished := first.GetOperation().GetState() == oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED; {
	case finished && !second.GetReplayed():
		return verdictf(Lie, "the second answer is not marked as a replay"), nil
	case finished && len(s.target.Requests()) != sent:
		return verdictf(Unsafe, "the second request reached the provider"), nil
	}
	return judgement{verdict: Safe}, nil
}

func sameAnswer(a, b *oncewardv1.RequestActionResponse) judgement {
	one, two := a.GetOperation(), b.GetOperation()
	switch {
	case one.GetId() != two.GetId():
		return verdictf(Unsafe, "one key led to two operations")
	case one.GetReceipt().GetProviderReference() != two.GetReceipt().GetProviderReference(),
		!bytes.Equal([]byte(one.GetReceipt().GetJson()), []byte(two.GetReceipt().GetJson())):
		return verdictf(Lie, "the second receipt is not byte for byte the first")
	}
	return judgement{verdict: Safe}
}

// prepareJoined holds the first write.
func prepareJoined(s *stage) error { return s.hold() }

// playJoined asks twice at once: the second request comes while the write of the
// first is held.
func playJoined(ctx context.Context, s *stage, c *client) (judgement, error) {
	type answer struct {
		resp *oncewardv1.RequestActionResponse
		err  error
	}
	answers := make(chan answer, 2)
	ask := func() {
		resp, err := c.request(ctx, s, s.example)
		answers <- answer{resp, err}
	}
	go ask()
	select {
	case <-s.gate.Reached():
	case early := <-answers:
		if early.err != nil {
			return judgement{}, early.err
		}
		return verdictf(NotApplicable, "the write did not stand at the target when its answer came"), nil
	case <-ctx.Done():
		return judgement{}, fmt.Errorf("nothing was sent: %w", ctx.Err())
	}
	go ask()
	select {
	case <-s.met:
	case <-ctx.Done():
	}
	s.gate.Release()
	one, two := <-answers, <-answers
	if err := errors.Join(one.err, two.err); err != nil {
		return judgement{}, err
	}
	return sameAnswer(one.resp, two.resp), nil
}

func prepareMismatch(s *stage) error {
	if s.noOther != "" {
		return errors.New(s.noOther)
	}
	return nil
}

// playMismatch asks for another action under the key of a finished one.
func playMismatch(ctx context.Context, s *stage, c *client) (judgement, error) {
	if _, err := c.request(ctx, s, s.example); err != nil {
		return judgement{}, err
	}
	sent := len(s.target.Requests())
	_, err := c.request(ctx, s, s.other)
	switch {
	case err == nil:
		return verdictf(Lie, "other arguments under the same key were answered with the first receipt"), nil
	case status.Code(err) != codes.FailedPrecondition:
		return judgement{}, err
	case len(s.target.Requests()) != sent:
		return verdictf(Unsafe, "the refused request reached the provider"), nil
	}
	return judgement{verdict: Safe}, nil
}
