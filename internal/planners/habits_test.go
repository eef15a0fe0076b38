package planners

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// goal is one thing that a planner wants done: the refund of a charge, once.
type goal struct {
	name  string // in the body that the provider sees
	cents int
}

func (g goal) charge() string { return "ch_" + g.name }

// request asks for the goal as a well-behaved planner does, the first time.
func (g goal) request() *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{
		ActionType: "payments.refund.create",
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{
			ArgumentsJson: fmt.Sprintf(`{"charge_id":%q,"amount":%d,"currency":"usd"}`, g.charge(), g.cents),
		},
		Run:  &oncewardv1.RunContext{RunId: "run_" + g.name, StepId: "refund", Attempt: 1, ToolCallId: "call_1", Agent: "support", Instance: "pod-1", ToolVersion: "7"},
		Wait: durationpb.New(5 * time.Second),
	}
}

// habit is a way to ask too often.
type habit struct {
	name string
	ask  func(ctx context.Context, p *planner, g goal)
}

// habits are those that reports about agents describe. The first ones (fenced)
// ask for a goal in another way.
func habits() []habit {
	return []habit{
		{"rephrases the goal", rephrases},
		{"rephrases while it is open", rephrasesAtOnce},
		{"takes another tool", takesAnotherTool},
		{"model calls again", modelCallsAgain},
		{"network drops", networkDrops},
		{"tool times out", toolTimesOut},
		{"retry policy", retryPolicy},
		{"crash and replay", crashAndReplay},
		{"queue redelivers", queueRedelivers},
		{"changes the arguments", changesArguments},
		{"asks for what it may not", asksForTheForbidden},
	}
}

// fenced is how many habits come first.
const fenced = 3

// modelCallsAgain: the model makes sure, with other words in a note.
func modelCallsAgain(ctx context.Context, p *planner, g goal) {
	for i := range 4 {
		req := g.request()
		req.Run.Attempt, req.Run.ToolCallId = int32(i+1), fmt.Sprintf("call_%d", i+1)
		req.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{
			ArgumentsJson: fmt.Sprintf(`{"charge_id":%q,"amount":%d,"currency":"usd","reason":"to make sure, no. %d"}`, g.charge(), g.cents, i),
		}
		p.send(ctx, req)
	}
}

// networkDrops: the call breaks in the middle, and is made again elsewhere.
func networkDrops(ctx context.Context, p *planner, g goal) {
	for i := range 3 {
		broken, cut := context.WithCancel(ctx)
		time.AfterFunc(time.Duration(20*(i+1))*time.Millisecond, cut)
		p.send(broken, g.request())
		cut()
	}
	p.askUntilSettled(ctx, g.request())
}

// toolTimesOut: the tool gives up before the answer, and the planner tries again.
func toolTimesOut(ctx context.Context, p *planner, g goal) {
	for range 3 {
		short, cancel := context.WithTimeout(ctx, 80*time.Millisecond)
		p.send(short, g.request())
		cancel()
	}
	p.askUntilSettled(ctx, g.request())
}

// retryPolicy: a client library that tries again whatever the answer is.
func retryPolicy(ctx context.Context, p *planner, g goal) {
	for i := range 5 {
		req := g.request()
		req.Run.Attempt, req.RetryCause = int32(i+1), oncewardv1.RetryCause_RETRY_CAUSE_EXPLICIT_RETRY
		p.send(ctx, req)
	}
}

// crashAndReplay: the worker dies after the call and runs the whole run again.
func crashAndReplay(ctx context.Context, p *planner, g goal) {
	for i := range 3 {
		req := g.request()
		req.Run.Instance = fmt.Sprintf("pod-%d", i+1)
		p.send(ctx, req)
	}
}

// queueRedelivers: the job comes three times at once, to three workers.
func queueRedelivers(ctx context.Context, p *planner, g goal) {
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() {
			req := g.request()
			req.Run.Instance = fmt.Sprintf("worker-%d", i)
			p.send(ctx, req)
		})
	}
	workers.Wait()
}

// rephrases: the goal again, in another run, under another key.
func rephrases(ctx context.Context, p *planner, g goal) {
	first := p.askUntilSettled(ctx, g.request())
	for i := range 3 {
		req := g.request()
		req.IdempotencyKey = fmt.Sprintf("rephrased-%s-%d", g.name, i)
		req.Run.RunId, req.Run.StepId = fmt.Sprintf("run_%s_%d", g.name, i), "give-money-back"
		p.askFenced(ctx, req, first)
	}
}

// rephrasesAtOnce: it does not wait for the first answer either.
func rephrasesAtOnce(ctx context.Context, p *planner, g goal) {
	for i := range 4 {
		req := g.request()
		req.Wait = durationpb.New(0)
		if i > 0 {
			req.IdempotencyKey, req.Run.RunId = fmt.Sprintf("at-once-%s-%d", g.name, i), fmt.Sprintf("run_%s_%d", g.name, i)
		}
		p.send(ctx, req)
	}
}

// takesAnotherTool: unsure of the refund, it writes an e-mail about it instead.
func takesAnotherTool(ctx context.Context, p *planner, g goal) {
	first := p.askUntilSettled(ctx, g.request())
	p.askFenced(ctx, &oncewardv1.RequestActionRequest{
		ActionType: "email.invoice.send",
		ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{
			ArgumentsJson: fmt.Sprintf(`{"to":"li@example.test","invoice_id":%q,"revision":1}`, g.charge()),
		},
		Run: &oncewardv1.RunContext{RunId: "run_" + g.name, StepId: "apologise", Agent: "support"},
	}, first)
}

// changesArguments: the same key with another amount.
func changesArguments(ctx context.Context, p *planner, g goal) {
	first := p.askUntilSettled(ctx, g.request())
	more := goal{g.name, g.cents + 1}.request()
	_, err := p.ask(ctx, more)
	if first != nil && reasonOf(err) != "IDEMPOTENCY_KEY_REUSED" {
		p.complain("the key of %s came with another amount, and the answer is %v", first.GetOperation().GetId(), err)
	}
}

// asksForTheForbidden: another currency, an action that is not for it, an amount
// that is none.
func asksForTheForbidden(ctx context.Context, p *planner, g goal) {
	for want, change := range map[string]func(*oncewardv1.RequestActionRequest){
		"POLICY_DENIED": func(r *oncewardv1.RequestActionRequest) {
			r.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: fmt.Sprintf(`{"charge_id":%q,"amount":%d,"currency":"eur"}`, g.charge(), g.cents)}
		},
		"INVALID_ARGUMENTS": func(r *oncewardv1.RequestActionRequest) {
			r.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: fmt.Sprintf(`{"charge_id":%q,"amount":-%d,"currency":"usd"}`, g.charge(), g.cents)}
		},
	} {
		req := g.request()
		change(req)
		if _, err := p.ask(ctx, req); reasonOf(err) != want {
			p.complain("wanted %s, got %v", want, err)
		}
	}
	note := g.request()
	note.ActionType = "notes.insert"
	note.ArgumentsForm = &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: fmt.Sprintf(`{"subject":%q,"body":"text"}`, g.name)}
	if _, err := p.ask(ctx, note); reasonOf(err) != "POLICY_DENIED" {
		p.complain("an action that is not allowed got %v", err)
	}
	p.askUntilSettled(ctx, g.request())
}

// send is ask, for planners that do not look at the answer.
func (p *planner) send(ctx context.Context, req *oncewardv1.RequestActionRequest) {
	_, _ = p.ask(ctx, req) // it was looked at
}

// askFenced asks for what an open or a done goal forbids.
func (p *planner) askFenced(ctx context.Context, req *oncewardv1.RequestActionRequest, first *oncewardv1.RequestActionResponse) {
	_, err := p.ask(ctx, proto.CloneOf(req))
	if first == nil {
		return // its goal was refused, so that nothing holds the intent
	}
	reason, metadata := infoOf(err)
	switch {
	case first.GetOperation().GetState() == oncewardv1.OperationState_OPERATION_STATE_FAILED:
	case reason == "BUDGET_EXHAUSTED" || reason == "STOPPED": // they come first
	case reason != "INTENT_OPEN" && reason != "INTENT_QUIET":
		p.complain("operation %s holds the intent, and a second one got %v", first.GetOperation().GetId(), err)
	case metadata["operation_id"] != first.GetOperation().GetId() || metadata["next_step"] == "":
		p.complain("the refusal does not point at %s: %v", first.GetOperation().GetId(), metadata)
	}
}
