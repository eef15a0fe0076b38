package planners

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestMain(m *testing.M) {
	os.Exit(apptest.Main(func() int { return pgtest.Main(m) }))
}

// budgetCents is what all planners together may give back: less than they want.
const budgetCents = 60000

// policyFile has every feature that a policy has. Windows slide, so that no
// midnight comes in between.
const policyFile = `kind: policy
tenant: acme
version: "1"
stages:
  default: reconcile
  action_types: {crm.*: observe}
allow:
  - id: support
    actors: ["planner*"]
    action_types: [payments.refund.create, email.invoice.send, crm.contact.create]
rules:
  - id: dollars-only
    reason: refunds are made in dollars
    action_types: [payments.*]
    when: currency != "USD"
    then: deny
  - id: large-refund
    reason: refunds above 40 want the yes of two people
    action_types: [payments.*]
    when: amount > 40
    then: require_approval
    approvals: 2
    ttl: 10m
budgets:
  - {id: refunds, of: spend, currency: USD, limit: "600.00", action_types: [payments.*], window: {sliding: 24h}}
  - {id: refunds-to-one, of: calls, limit: 3, per: [counterparty], action_types: [payments.*], window: {sliding: 24h}}
  - {id: by-actor, of: calls, limit: 1000, per: [actor], window: {sliding: 1h}}
  - {id: at-once, of: open, limit: 60}
per_operation:
  - {max_attempts: 20, max_elapsed: 1h}
intents:
  - name: compensation
    quiet: 24h
    actions:
      payments.refund.create: {order: args.charge_id}
      email.invoice.send: {order: args.invoice_id}
`

// planner asks, remembers every answer, and complains.
type planner struct {
	t      *testing.T
	w      *apptest.World
	random *rand.Rand

	mu       sync.Mutex
	replicas []*apptest.Replica
	refusals map[string]int // reasons that planners were told
	answers  int
}

func (p *planner) complain(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf(format, args...)
}

func (p *planner) replica() *apptest.Replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replicas[p.random.IntN(len(p.replicas))]
}

// ask sends one request to any replica, and checks what every answer must be.
func (p *planner) ask(ctx context.Context, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	resp, err := p.w.Try(ctx, p.replica(), req)
	for (status.Code(err) == codes.Unavailable || status.Code(err) == codes.Aborted) && ctx.Err() == nil {
		resp, err = p.w.Try(ctx, p.replica(), req) // a replica died, or a switch was turned: another one, as every client does
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.answers++
		existed := resp.GetDisposition() == oncewardv1.Disposition_DISPOSITION_REPLAYED || resp.GetDisposition() == oncewardv1.Disposition_DISPOSITION_JOINED
		if existed != (resp.GetDuplicate().GetExplanation() != "") {
			p.complain("%s: explained as %v", resp.GetDisposition(), resp.GetDuplicate())
		}
		if resp.GetNextStep().GetMessage() == "" {
			p.complain("no next step: %v", resp)
		}
		return resp, nil
	}
	switch code := status.Code(err); code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return nil, err // it left
	default:
		reason, metadata := infoOf(err)
		explained := map[string]bool{
			"BUDGET_EXHAUSTED": metadata["budget"] != "" && metadata["limit"] != "", "POLICY_DENIED": metadata["rule"] != "",
			"INTENT_OPEN": metadata["operation_id"] != "", "INTENT_QUIET": metadata["operation_id"] != "",
			"IDEMPOTENCY_KEY_REUSED": metadata["operation_id"] != "", "INVALID_ARGUMENTS": namesFields(err), "STOPPED": metadata["reason"] != "",
		}[reason]
		if !explained {
			p.complain("%s: a refusal that explains nothing: %v %v", req.GetActionType(), err, metadata)
		}
		p.refusals[reason]++
	}
	return nil, err
}

// askUntilSettled asks until the goal is done, failed or refused for good. It
// returns the last answer, or nil for a refusal.
func (p *planner) askUntilSettled(ctx context.Context, req *oncewardv1.RequestActionRequest) *oncewardv1.RequestActionResponse {
	for ctx.Err() == nil {
		resp, err := p.ask(ctx, req)
		switch code := status.Code(err); {
		case code == codes.DeadlineExceeded:
			continue
		case err != nil:
			return nil
		}
		switch resp.GetOperation().GetState() {
		case oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED, oncewardv1.OperationState_OPERATION_STATE_FAILED:
			return resp
		}
	}
	p.complain("never settled: %v", req)
	return nil
}

func infoOf(err error) (reason string, metadata map[string]string) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason(), info.GetMetadata()
		}
	}
	return "", nil
}

// namesFields reports whether a refusal says which fields are wrong.
func namesFields(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return len(bad.GetFieldViolations()) > 0
		}
	}
	return false
}

func reasonOf(err error) string {
	reason, _ := infoOf(err)
	return reason
}

// mortality is how long the others wait for what a killed replica was doing.
func mortality() apptest.ChildOptions {
	return apptest.ChildOptions{LeaseGrace: 2 * time.Second, ReconcileLease: 3 * time.Second}
}

// TestPlanners is the promise of this package: three replicas, one of which is
// killed again and again, a provider that misbehaves, planners with every habit,
// reviewers and an administrator with a kill switch.
func TestPlanners(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("ONCEWARD_SEED"); given != "" {
		if _, err := fmt.Sscan(given, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ONCEWARD_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	w := apptest.New(t, apptest.Options{
		Policies: map[string]string{"acme.yaml": policyFile},
		// Nearly every first try fails here, which would use up any budget of retries.
		Demo: demo.Options{Timeout: 2 * time.Second, Protection: actions.Protection{Failures: 1000, OpenFor: time.Second, RetryShare: 100, RetryFloor: 10000}},
	})
	p := &planner{t: t, w: w, random: random, refusals: map[string]int{}}
	for range 2 {
		p.replicas = append(p.replicas, w.Start(t, func(c *app.Config) {
			c.LeaseGrace, c.ReconcileLease = mortality().LeaseGrace, mortality().ReconcileLease
		}))
	}
	mortal := w.StartChild(t, mortality())
	p.replicas = append(p.replicas, mortal.Replica)

	ctx, cancel := context.WithTimeout(t.Context(), 2*apptest.Patience)
	defer cancel()
	over, end := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { review(over, t, w, p.replicas[0]) })
	others.Go(func() { p.killAndRestart(over, mortal) })
	others.Go(func() { flipKillSwitch(over, t, w, p.replicas[1]) })

	var planners sync.WaitGroup
	var goals []goal
	for i, h := range habits() {
		if i == fenced {
			// Those that must meet a fence have the budget to themselves first.
			planners.Wait()
		}
		for n := range 5 {
			// Every fifth is large enough to want a yes; all together want more than there is.
			g := goal{fmt.Sprintf("g%d%d", i, n), 100 + random.IntN(1200)}
			if n == 4 {
				g.cents = 4001 + random.IntN(500)
			}
			goals = append(goals, g)
			misbehave(w, random, g)
			planners.Go(func() { h.ask(ctx, p, g) })
		}
	}
	planners.Go(func() { p.watchOnly(ctx) })
	planners.Wait()
	settle(ctx, t, w)
	end()
	others.Wait()
	if ctx.Err() != nil {
		open, _ := w.Owner().List(t.Context(), "acme", ledger.Filter{States: []ledger.State{ledger.Pending, ledger.Running, ledger.Unknown, ledger.NeedsReview}}, "", 100)
		for _, op := range open {
			t.Errorf("operation %s is open: %+v; audit %v", op.ID, op, w.Trail(t, op.ID))
		}
		t.Fatalf("it took too long; %s", w.Describe())
	}
	judge(t, w, p, goals)
}

// misbehave lets the provider fail the first writes of a goal.
func misbehave(w *apptest.World, random *rand.Rand, g goal) {
	faults := []fakeprovider.Fault{
		{Kind: fakeprovider.None}, {Kind: fakeprovider.DropAnswerAfterApplying}, {Kind: fakeprovider.ErrorAfterApplying},
		{Kind: fakeprovider.ErrorBeforeApplying}, {Kind: fakeprovider.DropBeforeReading}, {Kind: fakeprovider.TruncateAnswer},
		{Kind: fakeprovider.RateLimited}, {Kind: fakeprovider.HTML502}, {Kind: fakeprovider.Empty201},
	}
	var first []fakeprovider.Fault
	for range 1 + random.IntN(2) {
		first = append(first, faults[random.IntN(len(faults))])
	}
	w.Provider.ForMatch(func(_ *http.Request, body []byte) bool { return strings.Contains(string(body), `"`+g.charge()+`"`) }, first...)
}

// review says yes to everything, as two people, each of them twice.
func review(ctx context.Context, t *testing.T, w *apptest.World, r *apptest.Replica) {
	every(ctx, func() {
		list, err := r.Reviews.ListReviews(apptest.As(ctx, w.Reviewer), &oncewardv1.ListReviewsRequest{})
		if err != nil {
			return
		}
		for _, item := range list.GetReviews() {
			review := item.GetOperation().GetReview()
			if review.GetReason() != oncewardv1.ReviewReason_REVIEW_REASON_APPROVAL_REQUIRED || review.GetRequiredApprovals() != 2 {
				t.Errorf("a review that nobody expected: %v", item)
			}
			for _, who := range []string{w.Reviewer, w.Reviewer, w.SecondReviewer} {
				resp, err := r.Reviews.ResolveReview(apptest.As(ctx, who), &oncewardv1.ResolveReviewRequest{
					ReviewId: review.GetId(), Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{
						ArgumentsHash: item.GetOperation().GetArgumentsHash(), PolicyVersion: review.GetPolicyVersion(),
					}},
				})
				if who == w.Reviewer && err == nil && resp.GetOperation().GetAttempts() != nil {
					t.Errorf("sent with the yes of one person: %v", resp)
				}
			}
			_, err := r.Reviews.ResolveReview(apptest.As(ctx, w.Agent), &oncewardv1.ResolveReviewRequest{
				ReviewId: review.GetId(), Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{}},
			})
			if ctx.Err() == nil && status.Code(err) != codes.PermissionDenied {
				t.Errorf("a planner approves: %v", err)
			}
		}
	})
}

// killAndRestart kills a replica in the middle of whatever it does, and starts
// another in its place.
func (p *planner) killAndRestart(ctx context.Context, mortal *apptest.Child) {
	for range 2 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		mortal.Kill()
		mortal = p.w.StartChild(p.t, mortality())
		p.mu.Lock()
		p.replicas[2] = mortal.Replica
		p.mu.Unlock()
	}
}

// flipKillSwitch stops e-mails for a while: no mail may be claimed meanwhile.
func flipKillSwitch(ctx context.Context, t *testing.T, w *apptest.World, r *apptest.Replica) {
	set := func(stopped bool) bool {
		_, err := r.Policy.SetKillSwitch(apptest.As(ctx, w.Admin), &oncewardv1.SetKillSwitchRequest{ActionType: "email.invoice.send", Stopped: stopped, Reason: "mails are checked"})
		if err != nil && ctx.Err() == nil {
			t.Errorf("kill switch: %v", err)
		}
		return err == nil
	}
	every(ctx, func() {
		if !set(true) {
			return
		}
		_, err := w.Try(ctx, r, apptest.Invoice("while_stopped"))
		if ctx.Err() == nil && reasonOf(err) != "STOPPED" {
			t.Errorf("a mail while mails are stopped: %v", err)
		}
		set(false)
	})
}

// watchOnly asks for an action type that is only observed.
func (p *planner) watchOnly(ctx context.Context) {
	for i := range 6 {
		req := apptest.Contact(fmt.Sprintf("li%d@example.test", i%3))
		resp, err := p.ask(ctx, req)
		want := oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_EXECUTE
		if i >= 3 {
			want = oncewardv1.ObservedOutcome_OBSERVED_OUTCOME_DUPLICATE
		}
		if err != nil || resp.GetDisposition() != oncewardv1.Disposition_DISPOSITION_OBSERVED || resp.GetOperation() != nil || resp.GetObservation().GetOutcome() != want {
			p.complain("observed request %d: %v, %v", i, resp, err)
		}
	}
}

// every does something again and again, with short pauses, until ctx ends.
func every(ctx context.Context, do func()) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// settle waits until nothing is open any more.
func settle(ctx context.Context, t *testing.T, w *apptest.World) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for w.Database.Count(t, `SELECT count(*) FROM operations WHERE status NOT IN ('succeeded', 'failed')`) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
