package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// recordedError is an error whose refusal is in the audit record already.
type recordedError struct{ error }

func (e recordedError) Unwrap() error { return e.error }

// deny writes a refused request to the audit record, and returns its error. A
// refusal that cannot be recorded is one all the same.
func (s *Server) deny(ctx context.Context, err error, d ledger.Denial) error {
	r := toRefusal(ctx, err)
	if !forRecord(r) || errors.As(err, &recordedError{}) {
		return err
	}
	skipped, ok := s.denials.admit(denialKey{tenant: d.Tenant, requests: true})
	if !ok {
		return recordedError{err} // counted, and the number is recorded
	}
	d.ID, d.Decision, d.Reason = dispatch.NewID(), policy.Deny.String(), r.reason
	if d.Detail == "" {
		d.Detail = r.message
	}
	if skipped > 0 {
		d.Detail += "; " + notOneByOne(skipped)
	}
	if d.Rule == "" {
		d.Rule = r.metadata["rule"]
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialTimeout)
	defer cancel()
	s.denials.write(detached, d)
	return recordedError{err}
}

// denyRequest is deny for a request of an action. a is what was found out about
// it before it was refused; nil: nothing.
func (s *Server) denyRequest(ctx context.Context, p policy.Principal, a *admission, req *oncewardv1.RequestActionRequest, err error) error {
	d := ledger.Denial{Tenant: p.Tenant, Actor: p.Actor, ActionType: clipped(req.GetActionType()), Run: storableRun(req)}
	if a != nil {
		d.Stage, d.PolicyVersion, d.Rule = a.decision.Stage, a.policy.Version(), a.decision.Rule
		d.Key, d.Amount, d.Currency = a.key.Text, a.decision.Amount, a.decision.Currency
		if hash := a.hash; hash != (ledger.Hash{}) {
			d.ArgsHash = &hash
		}
	}
	r := toRefusal(ctx, err)
	if d.Rule != "" && r.reason != reasonPolicyDenied && r.reason != reasonRoleRequired {
		d.Rule = "" // it allowed
	}
	if forRecord(r) {
		// Names that callers make up are not told apart, and some cannot be stored.
		known := ""
		if a != nil {
			known = a.action.Spec.Type
		}
		s.tallies.refused(p.Tenant, known, r.reason)
	}
	return s.deny(ctx, err, d)
}

// storableRun is where a request comes from, unless it is malformed.
func storableRun(req *oncewardv1.RequestActionRequest) ledger.Run {
	if checkTexts(req) != nil {
		return ledger.Run{}
	}
	return fromRun(req.GetRun())
}

// forRecord reports whether a refusal is a decision about a request, which
// belongs into the audit record; what only says to come again is none.
func forRecord(r *refusal) bool {
	switch r.code {
	case codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition:
		return true
	case codes.ResourceExhausted:
		return r.reason == reasonBudgetExhausted || r.reason == reasonRateLimited
	case codes.NotFound:
		return r.reason == reasonUnknownActionType
	default:
		return false
	}
}
