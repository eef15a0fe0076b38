package campaign

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/chaos/history"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// callers ask for goals, and remember what they were told.
type callers struct {
	world *world
	began time.Time
	kinds []fakeprovider.Kind // of the provider's faults
	log   history.Log

	mu      sync.Mutex
	goals   map[int]goal // that were asked for
	known   map[int]string
	skipped int // steps that came too late
	wrong   []string
}

func newCallers(w *world, kinds []fakeprovider.Kind) *callers {
	return &callers{world: w, began: time.Now(), kinds: kinds, goals: map[int]goal{}, known: map[int]string{}}
}

// tooLate is how far behind its plan a caller may be: what comes later is left out.
const tooLate = 2 * time.Second

// run does the steps of one caller until ctx ends.
func (c *callers) run(ctx context.Context, number int) {
	steps := planOf(c.world.Seed, number, c.world.Options)
	for {
		s := steps.next()
		wait := time.Until(c.began.Add(s.at))
		if s.at > c.world.Duration {
			return
		}
		if wait < -tooLate {
			c.mu.Lock()
			c.skipped++
			c.mu.Unlock()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			c.do(ctx, number, s)
		}
	}
}

// goal is the goal of a number. The first time that it is asked for, the provider
// gets to know what it will do about it.
func (c *callers) goal(number int) goal {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, asked := c.goals[number]
	if asked {
		return g
	}
	g = goalOf(c.world.Seed, number, c.kinds)
	c.goals[number] = g
	if len(g.faults) > 0 {
		c.world.forBody(g.needle(), g.faults...)
	}
	return g
}

// do is one step.
func (c *callers) do(ctx context.Context, caller int, s step) {
	g := c.goal(s.goal)
	members := c.world.serving()
	at := func(n int) *member { return members[(s.first+n)%len(members)] }
	switch s.habit {
	case asks:
		c.askAgain(ctx, caller, g, own, s)
	case changes:
		c.askAgain(ctx, caller, g, other, s)
	case bursts:
		var together sync.WaitGroup
		for i := range s.copies {
			together.Go(func() { c.ask(ctx, caller*100+i, g, own, i, "", at(i), callTimeout) })
		}
		together.Wait()
	case leaves:
		c.ask(ctx, caller, g, own, s.words, "", at(0), s.leave)
		c.askAgain(ctx, caller, g, own, s)
	case reads, cancels:
		c.lookAt(ctx, caller, g, s.habit, at(0))
	}
}

// tries is how often a caller asks when it gets no answer.
const tries = 4

// askAgain asks until there is an answer, a few times, each time another replica.
func (c *callers) askAgain(ctx context.Context, caller int, g goal, set int, s step) {
	members := c.world.serving()
	for i := range tries {
		call, correctable := c.ask(ctx, caller, g, set, s.words, "", members[(s.first+i)%len(members)], callTimeout)
		if correctable && set == own {
			c.ask(ctx, caller, g, corrected, s.words, call.OperationID, members[s.first%len(members)], callTimeout)
		}
		if call.Answer != history.Nothing {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(i+1) * 100 * time.Millisecond):
		}
	}
}

// ask makes one request and records it. It reports whether the operation failed so that
// other arguments may be brought.
func (c *callers) ask(ctx context.Context, caller int, g goal, set, words int, corrects string, m *member, timeout time.Duration) (history.Call, bool) {
	call := history.Call{Tenant: g.tenant, Key: g.name, Client: caller, Replica: m.name, Kind: history.Request, Arguments: set, Cents: g.asked(set), Corrects: corrects != ""}
	req := g.request(set, words)
	req.CorrectsOperationId = corrects
	var resp *oncewardv1.RequestActionResponse
	op := c.call(ctx, &call, timeout, g, func(ctx context.Context) (*oncewardv1.Operation, error) {
		var err error
		resp, err = m.actions.RequestAction(ctx, req)
		return resp.GetOperation(), err
	})
	if op != nil {
		call.Replayed, call.Disposition = resp.GetReplayed(), strings.TrimPrefix(resp.GetDisposition().String(), "DISPOSITION_")
		c.mu.Lock()
		c.known[g.number] = op.GetId()
		c.mu.Unlock()
	}
	c.log.Add(call)
	return call, op.GetFailure().GetCorrectable() && call.State == ledger.Failed && g.wrong
}

// lookAt reads or cancels the operation of a goal, where one is known.
func (c *callers) lookAt(ctx context.Context, caller int, g goal, how habit, m *member) {
	c.mu.Lock()
	id := c.known[g.number]
	c.mu.Unlock()
	call := history.Call{Tenant: g.tenant, Key: g.name, Client: caller, Replica: m.name, Kind: history.Read}
	do := func(ctx context.Context) (*oncewardv1.Operation, error) {
		req := &oncewardv1.GetOperationRequest{Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: id}}
		if g.key != "" {
			req.Selector = &oncewardv1.GetOperationRequest_IdempotencyKey{IdempotencyKey: g.key}
		}
		resp, err := m.actions.GetOperation(ctx, req)
		return resp.GetOperation(), err
	}
	switch {
	case how == cancels && id == "", how == reads && id == "" && g.key == "":
		return
	case how == cancels:
		call.Kind = history.Cancel
		do = func(ctx context.Context) (*oncewardv1.Operation, error) {
			resp, err := m.actions.CancelOperation(ctx, &oncewardv1.CancelOperationRequest{OperationId: id, Note: "no longer wanted"})
			return resp.GetOperation(), err
		}
	}
	c.call(ctx, &call, callTimeout, g, do)
	c.log.Add(call)
}

// call makes one call as an agent of the goal's tenant and writes down how it went.
func (c *callers) call(ctx context.Context, call *history.Call, timeout time.Duration, g goal, do func(context.Context) (*oncewardv1.Operation, error)) *oncewardv1.Operation {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	agent := c.world.keys[g.tenant].agents[call.Client%2]
	call.Invoked = time.Since(c.began)
	op, err := do(as(ctx, agent))
	call.Returned = time.Since(c.began)
	if err != nil {
		call.Answer, call.Reason = answerOf(err)
		if call.Answer == "" && !excused(status.Code(err)) || strings.HasPrefix(call.Reason, "INVALID_") {
			c.complain(fmt.Sprintf("a caller who asked for %s of %s at %s was told %v", call.Key, call.Tenant, call.Returned.Round(time.Millisecond), err))
		}
		return nil
	}
	call.Answer, call.OperationID = history.Told, op.GetId()
	call.State = stateOf(op.GetState())
	call.Receipt, call.Reference = op.GetReceipt().GetJson(), op.GetReceipt().GetProviderReference()
	if op.GetFailure() != nil {
		call.Reason = op.GetFailure().GetCode()
	}
	return op
}

// excused reports whether a call may end so without a reason that is known here, while
// everything fails: it could not be carried out, not now, or there was no time. Every other one
// would send a caller away for good who has done nothing wrong.
func excused(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled || code == codes.Aborted
}

// complain records an answer that no caller should get, whatever the faults.
func (c *callers) complain(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, what)
}

// answerOf says what an error tells the caller: only an explicit refusal tells that
// nothing was recorded.
func answerOf(err error) (history.Answer, string) {
	reason := status.Code(err).String()
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == "onceward" {
			reason = info.GetReason()
		}
	}
	switch reason {
	case "IDEMPOTENCY_KEY_REUSED":
		return history.Reused, reason
	case "OPERATION_NOT_FOUND":
		return history.Absent, reason
	case "POLICY_DENIED", "INTENT_OPEN", "INTENT_QUIET", "STOPPED", "BUDGET_EXHAUSTED", "RATE_LIMITED", "OVERLOADED",
		"PROVIDER_UNAVAILABLE", "IDENTITY_UNAVAILABLE", "NOT_CORRECTABLE", "NOT_CANCELLABLE", "INVALID_ARGUMENTS", "INVALID_REQUEST":
		return history.Refused, reason
	default:
		return history.Nothing, reason
	}
}

func stateOf(s oncewardv1.OperationState) ledger.State {
	return ledger.State(strings.ToLower(strings.TrimPrefix(s.String(), "OPERATION_STATE_")))
}

// as is a context that carries a credential.
func as(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}
