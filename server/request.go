package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// How long a request is held.
const (
	defaultWait = 10 * time.Second
	maxWait     = time.Minute
	// answerMargin is kept of the caller's deadline to answer in.
	answerMargin = 50 * time.Millisecond
	// claimTimeout bounds the claim, which does not end with the caller.
	claimTimeout = 10 * time.Second
)

// RequestAction performs an action, or answers with what is known of it.
func (s *Server) RequestAction(ctx context.Context, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	began, p := time.Now(), principalOf(ctx)
	var room admission
	a, err := (*admission)(nil), want(p, policy.Agent)
	if err == nil {
		a, err = s.screen(&room, p, req)
	}
	var answer *oncewardv1.RequestActionResponse
	switch {
	case a != nil && a.decision.Stage == ledger.StageObserve:
		answer, err = s.answerObserved(ctx, a, req, err)
	case err == nil:
		answer, err = s.answer(ctx, a, req)
	}
	if err != nil {
		err = s.denyRequest(ctx, p, a, req, err)
		s.measureRefusal(ctx, p, a, err, began)
		return nil, err
	}
	s.measureAnswer(ctx, p, a, answer, began)
	return answer, nil
}

// answer performs an action that may be requested at all, or answers with what
// is known of it.
func (s *Server) answer(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) (*oncewardv1.RequestActionResponse, error) {
	if op, answer, encoded := s.repeated(a, req); answer != nil {
		last, since := s.fates.arrived(op.ID)
		s.fates.done(ctx, op)
		answer.Duplicate = s.explained(req, op, last, since)
		s.spans.Link(ctx, op)
		s.logAnswer(ctx, req, op, answer)
		encodedIs(ctx, encoded)
		return answer, nil
	}
	if err := s.admitArguments(ctx, a, req); err != nil {
		return nil, err
	}
	found, err := s.find(ctx, a, req)
	if err != nil {
		return nil, err
	}
	return s.respond(ctx, req, found)
}

// respond waits for an operation, as long as the request may, and answers with
// it. It fails with *ledger.KeyReusedError when a correction has brought other
// arguments to it meanwhile: their receipt is not an answer to these.
func (s *Server) respond(ctx context.Context, req *oncewardv1.RequestActionRequest, found found) (*oncewardv1.RequestActionResponse, error) {
	last, since := s.fates.arrived(found.op.ID)
	op, disposition := s.await(ctx, found, req), found.disposition
	s.fates.done(ctx, op)
	if op.ArgsHash != found.op.ArgsHash {
		return nil, &ledger.KeyReusedError{Existing: *op}
	}
	first := disposition == oncewardv1.Disposition_DISPOSITION_EXECUTED || disposition == oncewardv1.Disposition_DISPOSITION_ACCEPTED
	if disposition == oncewardv1.Disposition_DISPOSITION_EXECUTED && !settled(op) {
		disposition = oncewardv1.Disposition_DISPOSITION_ACCEPTED
	}
	if op.State == ledger.NeedsReview {
		// The row alone does not have the question.
		if full, err := s.Ledger.Get(ctx, op.Tenant, op.ID); err == nil {
			op = &full
		}
	}
	answer := &oncewardv1.RequestActionResponse{
		Operation:   toOperation(op),
		Replayed:    disposition == oncewardv1.Disposition_DISPOSITION_REPLAYED,
		Disposition: disposition,
		NextStep:    nextStep(op, time.Now()),
	}
	if form, ok := req.GetArgumentsForm().(*oncewardv1.RequestActionRequest_ArgumentsJson); ok && found.remembered != nil {
		s.replays.checked(found.remembered, form.ArgumentsJson, answer)
	}
	if !first {
		answer.Duplicate = s.explained(req, op, last, since)
		s.spans.Link(ctx, op)
	}
	s.logAnswer(ctx, req, op, answer)
	return answer, nil
}

// answerObserved answers a request in the stage observe. refused is why it may
// not be requested at all, or nil.
func (s *Server) answerObserved(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest, refused error) (*oncewardv1.RequestActionResponse, error) {
	// With a policy that refuses, too: the key tells what it would repeat.
	invalid := s.admitArguments(ctx, a, req)
	if invalid == nil && a.corrects == nil {
		// The stage may have been a later one before. What was done then is not to
		// be done once more: a planner that is told to go on by itself would.
		op, err := s.existing(ctx, a)
		var reused *ledger.KeyReusedError
		switch {
		case err == nil:
			return s.respond(ctx, req, found{op: &op, disposition: joins(&op)})
		case errors.As(err, &reused):
			return nil, err
		}
	}
	if refused == nil {
		refused = invalid
	}
	if refused == nil {
		refused = s.judge(ctx, a, req)
	}
	if a.decision.Effect == policy.Deny && len(a.decision.Violations) == 0 {
		refused = nil // the decision says it
	}
	return s.observe(ctx, observed{
		principal: a.principal, actionType: a.action.Spec.Type, run: fromRun(req.GetRun()), decision: a.decision,
		key: a.key.Text, hash: a.hash, refusal: refused,
	}), nil
}

// logAnswer writes the one line that each answered request has in the log.
func (s *Server) logAnswer(ctx context.Context, req *oncewardv1.RequestActionRequest, op *ledger.Operation, answer *oncewardv1.RequestActionResponse) {
	if !s.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	run := req.GetRun()
	s.Log.LogAttrs(ctx, slog.LevelInfo, "request answered",
		slog.String("tenant", op.Tenant), slog.String("operation", op.ID), slog.String("action_type", op.ActionType),
		slog.String("run", run.GetRunId()), slog.String("step", run.GetStepId()), slog.Int64("caller_attempt", int64(run.GetAttempt())),
		slog.String("disposition", answer.GetDisposition().String()), slog.String("cause", answer.GetDuplicate().GetCause().String()), slog.String("state", string(op.State)), optrace.LogAttr(op))
}

// found is the operation that a request is about.
type found struct {
	op          *ledger.Operation // not changed: memory and other callers may have it too
	disposition oncewardv1.Disposition
	// remembered is where memory has it, if it comes from there.
	remembered *ledger.Operation
	// begin makes the attempt, where this request claimed it.
	begin func()
}

// repeated finds the answer to a request whose arguments are byte for byte those
// of one that was answered from memory before: they are known to be valid and to
// be the operation's. It returns nil for any other. Only what looks at no
// argument has been asked about the request so far. The answer is encoded already,
// but for why it is a duplicate, which is each caller's own.
func (s *Server) repeated(a *admission, req *oncewardv1.RequestActionRequest) (op *ledger.Operation, answer *oncewardv1.RequestActionResponse, encoded mem.Buffer) {
	form, ok := req.GetArgumentsForm().(*oncewardv1.RequestActionRequest_ArgumentsJson)
	if !ok || req.GetCorrectsOperationId() != "" || req.GetDistinctFromOperationId() != "" {
		return nil, nil, nil
	}
	in := keyInput(a, req)
	if a.action.Spec.KeyNeedsArguments(in) {
		return nil, nil, nil
	}
	key, err := actions.ComposeKey(a.action.Spec, in)
	if err != nil {
		return nil, nil, nil // it is said, with what else is wrong, in its turn
	}
	op, ready, encoded := s.replays.getByText(a.principal.Tenant, key.Text, form.ArgumentsJson)
	if ready == nil || op.ActionType != a.action.Spec.Type {
		return nil, nil, nil
	}
	return op, &oncewardv1.RequestActionResponse{
		Operation: ready.GetOperation(), Replayed: ready.GetReplayed(), Disposition: ready.GetDisposition(), NextStep: ready.GetNextStep(),
	}, encoded
}

// find returns the operation that a request is about: from memory or, for what
// says that it is sent again or most likely is, from the ledger, if its key is
// known there, else by claiming it.
func (s *Server) find(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) (found, error) {
	if a.corrects != nil {
		return s.claim(ctx, a, req) // the ledger decides about corrections
	}
	if op := s.replays.get(a.principal.Tenant, a.key.Text); op != nil {
		if !a.same(op) {
			return found{}, &ledger.KeyReusedError{Existing: *op}
		}
		return found{op: op, disposition: oncewardv1.Disposition_DISPOSITION_REPLAYED, remembered: op}, nil
	}
	tenant := a.principal.Tenant
	saysSo := req.GetRun().GetAttempt() > 1 || req.GetRetryCause() != oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED
	if !saysSo && !s.duplicates.likely(tenant) {
		f, err := s.claim(ctx, a, req)
		if err == nil {
			s.duplicates.note(tenant, f.disposition == oncewardv1.Disposition_DISPOSITION_REPLAYED || f.disposition == oncewardv1.Disposition_DISPOSITION_JOINED)
		}
		return f, err
	}
	// Most likely it is there, and nothing has to be rendered and sealed for a
	// claim. What this look-up cannot answer the claim decides.
	op, err := s.Ledger.GetByKey(ctx, tenant, a.key.Text)
	if !saysSo && (err == nil || errors.Is(err, ledger.ErrNotFound)) {
		s.duplicates.note(tenant, err == nil)
	}
	switch {
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrOverloaded):
		return found{}, err
	case err != nil, !a.same(&op), op.State.Final() && !s.replays.answersFor(&op):
		return s.claim(ctx, a, req)
	}
	s.replays.observe(&op)
	return found{op: &op, disposition: joins(&op)}, nil
}

// await holds a request until its operation is settled or its wait is over.
func (s *Server) await(ctx context.Context, f found, req *oncewardv1.RequestActionRequest) *ledger.Operation {
	if settled(f.op) {
		return f.op
	}
	_, span := s.spans.Within(ctx, "wait")
	defer span.End()
	op := s.waiters.await(ctx, f.op, waitOf(ctx, req), s.draining.Done(), f.begin)
	s.replays.observe(op) // the news may be of another replica's work
	return op
}

// waitOf is how long to hold a request: as asked, but with time left to answer
// before the caller's deadline.
func waitOf(ctx context.Context, req *oncewardv1.RequestActionRequest) time.Duration {
	wait := defaultWait
	if req.GetWait() != nil {
		wait = req.GetWait().AsDuration()
	}
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-answerMargin)
	}
	return max(wait, 0)
}

// claim opens the operation in the ledger. Where this request is the one that
// made it, its attempt waits to begin. Neither ends when the caller leaves.
func (s *Server) claim(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) (found, error) {
	release, err := s.admitClaim(ctx, a, req)
	if err != nil {
		if a.corrects != nil {
			return found{}, err
		}
		// It may not be sent, or not now; a duplicate is not sent again.
		op, none := s.existing(ctx, a)
		if errors.Is(none, ledger.ErrNotFound) || errors.Is(none, ledger.ErrKeyExpired) {
			return found{}, err // a claim would have to decide
		}
		return found{op: &op, disposition: joins(&op)}, none
	}
	claimedHere := false
	defer func() {
		if !claimedHere {
			release()
		}
	}()
	opening, prepared, err := s.opening(a, req)
	if err != nil {
		return found{}, err
	}
	if err := ctx.Err(); err != nil {
		return found{}, err // left before anything was recorded
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	opening.Operation.Run.TraceParent = optrace.Remember(ctx)
	claiming, span := s.spans.Within(detached, "claim")
	claimed := time.Now()
	op, created, err := s.Ledger.Open(claiming, opening)
	endSpan(span, err)
	if created {
		s.tallies.executed(&op)
	}
	switch {
	case err != nil:
		op, err = s.correct(detached, a, opening, err)
		return found{op: &op, disposition: oncewardv1.Disposition_DISPOSITION_EXECUTED}, err
	case created && op.State == ledger.Running:
		claimedHere = true
		begin := func() { s.Dispatcher.Go(prepared, op, claimed, release) }
		return found{op: &op, disposition: oncewardv1.Disposition_DISPOSITION_EXECUTED, begin: begin}, nil
	case created:
		return found{op: &op, disposition: oncewardv1.Disposition_DISPOSITION_ACCEPTED}, nil
	default:
		s.replays.observe(&op)
		return found{op: &op, disposition: joins(&op)}, nil
	}
}

// admitClaim answers whether a new operation may be claimed: by policy, as the
// provider is, and for want of a place. The place is given back by release.
func (s *Server) admitClaim(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) (release func(), err error) {
	if err := s.judge(ctx, a, req); err != nil {
		return nil, err
	}
	if err := s.Dispatcher.Admit(a.principal.Tenant, a.action); err != nil {
		return nil, err
	}
	return s.Dispatcher.Reserve(a.action.Spec.Contract.Provider)
}

// joins is what is done with a request whose operation existed before.
func joins(op *ledger.Operation) oncewardv1.Disposition {
	if op.State.Final() {
		return oncewardv1.Disposition_DISPOSITION_REPLAYED
	}
	return oncewardv1.Disposition_DISPOSITION_JOINED
}

// existing reads the operation that holds the key of a request, and refuses the
// request as the ledger would. ledger.ErrNotFound means that the key is free.
// It decides nothing that a claim does not decide again.
func (s *Server) existing(ctx context.Context, a *admission) (ledger.Operation, error) {
	op, err := s.Ledger.GetByKey(ctx, a.principal.Tenant, a.key.Text)
	if errors.Is(err, ledger.ErrNotFound) {
		buried, unread := s.Ledger.Buried(ctx, a.principal.Tenant, a.key.Text)
		if unread != nil {
			return ledger.Operation{}, unread
		}
		if buried {
			return ledger.Operation{}, ledger.ErrKeyExpired
		}
	}
	switch {
	case err != nil:
		return ledger.Operation{}, err
	case op.State.Final() && op.WindowEndsAt.Before(time.Now()):
		if a.action.Spec.ExpiredKey == actions.Reject {
			return ledger.Operation{}, ledger.ErrKeyExpired
		}
		return ledger.Operation{}, ledger.ErrNotFound
	case !a.same(&op):
		return ledger.Operation{}, &ledger.KeyReusedError{Existing: op}
	default:
		return op, nil
	}
}

// opening builds what the ledger is asked to record. An allowed action comes
// with its prepared attempt.
func (s *Server) opening(a *admission, req *oncewardv1.RequestActionRequest) (ledger.Opening, dispatch.Prepared, error) {
	id, spec, d := dispatch.NewID(), a.action.Spec, a.decision
	sealed, err := s.Sealer.Seal(a.args.JSON(), a.principal.Tenant, id)
	if err != nil {
		return ledger.Opening{}, dispatch.Prepared{}, err
	}
	prepared, err := s.Dispatcher.Prepare(a.action, a.principal.Tenant, id, 0, a.args)
	if err != nil {
		s.Log.Warn("request cannot be rendered", "action_type", spec.Type, "error", err)
		return ledger.Opening{}, dispatch.Prepared{}, unrenderable(err)
	}
	// A copy: the operation is remembered for a while (replays), and must not hold
	// the arguments, which are in prepared, in memory with it.
	requestHash := prepared.RequestHash
	opening := ledger.Opening{
		Operation: ledger.Operation{
			Tenant: a.principal.Tenant, ID: id, Key: a.key.Text, KeySource: a.key.Source.String(),
			ActionType: spec.Type, AdapterVersion: spec.Version, ContractVersion: spec.Contract.Version,
			ArgsHash: a.hash, RequestHash: &requestHash,
			RequestedBy: a.principal.Actor, Run: fromRun(req.GetRun()),
			IntentID: req.GetIntentId(), DistinctFrom: req.GetDistinctFromOperationId(),
			Amount: d.Amount, Currency: d.Currency, Stage: d.Stage, PolicyVersion: d.Version, Rule: d.Rule,
			MaxAttempts: d.MaxAttempts,
		},
		Event: ledger.Claim, Sealed: sealed, Start: prepared.Start,
		Window: spec.Window, ExpiredKeyReuse: spec.ExpiredKey == actions.Reuse,
		Provider: spec.Contract.Provider, Holds: d.Holds, GiveUp: d.GiveUp,
		Verdict: ledger.Verdict{Decision: d.Effect.String(), Rule: d.Rule, PolicyVersion: d.Version},
	}
	if d.Effect == policy.RequireApproval {
		opening.Event, opening.Operation.RequestHash = ledger.Escalate, nil // frozen when it is sent
		opening.Review = approvalReview(d)
	}
	return opening, prepared, nil
}

// unrenderable refuses arguments that make no request. What an adapter says of
// single arguments is passed on; any other error of it may hold what they say.
func unrenderable(err error) error {
	var bad *actions.ArgumentsError
	if errors.As(err, &bad) {
		return argumentsRefusal(bad)
	}
	return refuse(codes.InvalidArgument, reasonInvalidArguments,
		"the arguments fit the schema and make no request to the provider; nothing was recorded or sent. The server's log says why (\"request cannot be rendered\")")
}
