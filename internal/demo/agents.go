package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const (
	// answerTimeout is how much longer than it asks Onceward to wait an agent
	// listens for the answer.
	answerTimeout = 5 * time.Second
	// pollGap is between two looks at the operations.
	pollGap = 50 * time.Millisecond
	// pageSize is the largest page of ListOperations.
	pageSize = 200
)

// agents are the callers of one service. They are safe for concurrent use.
type agents struct {
	conn   *grpc.ClientConn
	client oncewardv1.ActionServiceClient
	key    func(tenant string) string
	pace   pace
}

func newAgents(s Service, p pace) (*agents, error) {
	conn, err := grpc.NewClient(s.Address(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A killed service is back soon.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, err
	}
	return &agents{conn: conn, client: oncewardv1.NewActionServiceClient(conn), key: s.Key, pace: p}, nil
}

func (a *agents) close() error { return a.conn.Close() }

// as returns a context with the credential of a tenant's agent.
func (a *agents) as(ctx context.Context, tenant string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+a.key(tenant))
}

// kind is what kind of answer a request got.
type kind int

const (
	ownAnswer  kind = iota // of the attempt that it caused, or that it goes on
	fromLedger             // replayed or joined: nothing was sent for it
	refused                // an error: nothing was sent for it
)

// request sends a line's request until there is an answer: an agent sends again
// what it got no answer to.
func (a *agents) request(ctx context.Context, line Line) (kind, error) {
	wait := a.pace.of(patience)
	req := &oncewardv1.RequestActionRequest{
		ActionType:     line.Request.ActionType,
		ArgumentsForm:  &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: string(line.Request.Arguments)},
		IdempotencyKey: line.Request.IdempotencyKey, IntentId: line.Request.IntentID,
		Run: line.Request.Run, RetryCause: line.Request.RetryCause, Wait: durationpb.New(wait),
	}
	for {
		try, cancel := context.WithTimeout(a.as(ctx, line.Request.Tenant), wait+answerTimeout)
		resp, err := a.client.RequestAction(try, req)
		cancel()
		switch status.Code(err) {
		case codes.OK:
			switch resp.GetDisposition() {
			case oncewardv1.Disposition_DISPOSITION_REPLAYED, oncewardv1.Disposition_DISPOSITION_JOINED:
				return fromLedger, nil
			default:
				return ownAnswer, nil
			}
		case codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound:
			return refused, nil
		case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
			if !sleep(ctx, a.pace.of(resendGap)) {
				return 0, context.Cause(ctx)
			}
		default:
			return 0, err
		}
	}
}

// attemptEnded waits until an attempt at a line's action has ended, or the
// operation has moved on some other way.
func (a *agents) attemptEnded(ctx context.Context, line Line) error {
	filter := &oncewardv1.OperationFilter{ActionType: line.Request.ActionType, RunId: line.Request.Run.GetRunId()}
	return a.poll(ctx, func() (bool, error) {
		ops, err := a.list(ctx, line.Request.Tenant, filter)
		for _, op := range ops {
			if op.GetState() != oncewardv1.OperationState_OPERATION_STATE_RUNNING {
				return true, nil
			}
		}
		return false, err
	})
}

// resolved waits until every operation is finished or waits for a person, and
// returns those that are not finished by then.
func (a *agents) resolved(ctx context.Context, tenants []string) ([]string, error) {
	working := &oncewardv1.OperationFilter{States: []oncewardv1.OperationState{
		oncewardv1.OperationState_OPERATION_STATE_PENDING, oncewardv1.OperationState_OPERATION_STATE_RUNNING,
		oncewardv1.OperationState_OPERATION_STATE_UNKNOWN,
	}}
	deadline := time.Now().Add(resolveTimeout)
	err := a.poll(ctx, func() (bool, error) {
		for _, tenant := range tenants {
			if ops, err := a.list(ctx, tenant, working); err != nil || len(ops) > 0 {
				return time.Now().After(deadline), err
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	var open []string
	err = a.each(ctx, tenants, func(op *oncewardv1.Operation) {
		switch op.GetState() {
		case oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED, oncewardv1.OperationState_OPERATION_STATE_FAILED:
		default:
			var attempts []string
			for _, attempt := range op.GetAttempts() {
				attempts = append(attempts, attempt.GetOutcome())
			}
			open = append(open, fmt.Sprintf("operation %s (%s) is not resolved: %s, %s; attempts: %s",
				op.GetIdempotencyKey(), op.GetActionType(), op.GetState(), op.GetReason(), strings.Join(attempts, ", ")))
		}
	})
	return open, err
}

// doubts counts the finished operations whose outcome was in doubt at some time.
func (a *agents) doubts(ctx context.Context, tenants []string) (int, error) {
	n := 0
	err := a.each(ctx, tenants, func(op *oncewardv1.Operation) {
		for _, attempt := range op.GetAttempts() {
			if doubtful(attempt.GetOutcome()) {
				n++
				return
			}
		}
	})
	return n, err
}

// doubtful reports whether the outcome of an attempt left open what the target
// holds, or what the receipt is.
func doubtful(outcome string) bool {
	switch outcome {
	case "applied", "rejected", "not_applied", "rate_limited":
		return false
	default:
		return true
	}
}

// each gives every operation of the tenants to do, with its attempts.
func (a *agents) each(ctx context.Context, tenants []string, do func(*oncewardv1.Operation)) error {
	for _, tenant := range tenants {
		ops, err := a.list(ctx, tenant, nil)
		if err != nil {
			return err
		}
		for _, op := range ops {
			resp, err := a.client.GetOperation(a.as(ctx, tenant), &oncewardv1.GetOperationRequest{
				Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: op.GetId()},
			})
			if err != nil {
				return err
			}
			do(resp.GetOperation())
		}
	}
	return nil
}

// list returns the operations of a tenant that a filter selects.
func (a *agents) list(ctx context.Context, tenant string, filter *oncewardv1.OperationFilter) ([]*oncewardv1.Operation, error) {
	var all []*oncewardv1.Operation
	req := &oncewardv1.ListOperationsRequest{PageSize: pageSize, Filter: filter}
	for {
		resp, err := a.client.ListOperations(a.as(ctx, tenant), req)
		if err != nil {
			return nil, err
		}
		all = append(all, resp.GetOperations()...)
		if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// poll asks until done, also while the service is away.
func (a *agents) poll(ctx context.Context, done func() (bool, error)) error {
	for {
		over, err := done()
		switch {
		case err != nil && status.Code(err) != codes.Unavailable:
			return err
		case over:
			return err
		case !sleep(ctx, pollGap):
			return context.Cause(ctx)
		}
	}
}
