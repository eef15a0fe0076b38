package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// admission is a request that passed every check that needs no claim.
type admission struct {
	principal policy.Principal
	action    *actions.Action
	args      actions.Arguments
	hash      ledger.Hash
	key       actions.Key
	decision  policy.Decision
	// corrects is the failed operation that the request names, if it does.
	corrects *ledger.Operation
}

// admit checks a request in the order of the contract: action type, arguments,
// references to other operations, key, policy. It writes nothing. Its errors are
// refusals, or the ledger's.
func (s *Server) admit(ctx context.Context, p policy.Principal, req *oncewardv1.RequestActionRequest) (*admission, error) {
	if err := checkTexts(req); err != nil {
		return nil, err
	}
	action, ok := s.Registry.Get(req.GetActionType())
	if !ok {
		return nil, refuse(codes.NotFound, reasonUnknownActionType, "no action type %q; CatalogService.ListActionTypes has those there are", clipped(req.GetActionType()))
	}
	// Policy that needs no arguments comes before they are looked at.
	decision := policy.Decide(p, action.Spec)
	if decision.Effect == policy.Deny {
		r := refuse(codes.PermissionDenied, reasonPolicyDenied, "refused by rule %s: %s", decision.Rule, decision.Reason)
		if decision.Rule == "role" {
			r.reason = reasonRoleRequired
		}
		r.metadata = map[string]string{"rule": decision.Rule}
		return nil, r
	}
	args, err := parseArguments(req)
	if err == nil {
		err = action.Validate(args)
	}
	if err != nil {
		return nil, argumentsRefusal(err)
	}
	a := &admission{
		principal: p, action: action, args: args, decision: decision,
		hash: args.IdentityHash(action.Spec.AdvisoryArgs),
	}
	if err := s.resolveReferences(ctx, a, req); err != nil {
		return nil, err
	}
	return a, nil
}

// resolveReferences reads the operations that a request names and finds its
// key: a correction has the key of what it corrects.
func (s *Server) resolveReferences(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) error {
	if id := req.GetDistinctFromOperationId(); id != "" {
		if _, err := s.named(ctx, a.principal, "distinct_from_operation_id", id); err != nil {
			return err
		}
	}
	callerKey := req.GetIdempotencyKey()
	source := actions.KeyFromNowhere
	if id := req.GetCorrectsOperationId(); id != "" {
		corrects, err := s.named(ctx, a.principal, "corrects_operation_id", id)
		if err != nil {
			return err
		}
		if corrects.ActionType != a.action.Spec.Type {
			return refuse(codes.FailedPrecondition, reasonNotCorrectable, "operation %s is a %s; a correction has the same action type", id, corrects.ActionType)
		}
		if callerKey != "" && callerKey != corrects.Key {
			return invalid(actions.Violation{Field: "idempotency_key", Reason: actions.ReasonKeyInvalid, Message: "is not the key of the operation that is corrected; leave it out"})
		}
		a.corrects = &corrects
		a.key = actions.Key{Text: corrects.Key}
		for _, known := range []actions.KeySource{actions.KeyFromCaller, actions.KeyFromRecipe, actions.KeyFromRunStep} {
			if known.String() == corrects.KeySource {
				source = known
			}
		}
		a.key.Source = source
		return nil
	}
	key, err := actions.ComposeKey(a.action.Spec, actions.KeyInput{
		Tenant: a.principal.Tenant, CallerKey: callerKey,
		Run: req.GetRun().GetRunId(), Step: req.GetRun().GetStepId(),
		DistinctFrom: req.GetDistinctFromOperationId(), Arguments: a.args,
	})
	if err != nil {
		return keyRefusal(err)
	}
	a.key = key
	return nil
}

// named returns an operation of the principal's tenant that a field names.
func (s *Server) named(ctx context.Context, p policy.Principal, field, id string) (ledger.Operation, error) {
	if err := checkID(field, id); err != nil {
		return ledger.Operation{}, err
	}
	op, err := s.Ledger.Get(ctx, p.Tenant, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Operation{}, refuse(codes.NotFound, reasonOperationNotFound, "%s: no such operation", field)
	}
	return op, err
}

// checkID refuses what is no UUID in its canonical form.
func checkID(field, id string) error {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return invalid(actions.Violation{Field: field, Reason: actions.ReasonFormat, Message: "is not the id of an operation or review (a UUID in lower case)"})
	}
	return nil
}

// parseArguments reads the arguments in the form that the caller chose.
func parseArguments(req *oncewardv1.RequestActionRequest) (actions.Arguments, error) {
	switch form := req.GetArgumentsForm().(type) {
	case *oncewardv1.RequestActionRequest_ArgumentsJson:
		return actions.ParseArguments([]byte(form.ArgumentsJson))
	case *oncewardv1.RequestActionRequest_Arguments:
		return structArguments(form.Arguments)
	default:
		return actions.ParseArguments([]byte("{}"))
	}
}

// structArguments reads a Struct, refusing numbers whose digits were lost
// before they arrived.
func structArguments(s *structpb.Struct) (actions.Arguments, error) {
	if path, ok := inexact(structpb.NewStructValue(s), "", 0); !ok {
		return actions.Arguments{}, &actions.ArgumentsError{Violations: []actions.Violation{{
			Field: path, Reason: actions.ReasonNumberInexact,
			Message: "a Struct carries numbers as doubles, exact to 2^53 only: send arguments_json",
		}}}
	}
	data, err := s.MarshalJSON()
	if err != nil {
		return actions.Arguments{}, &actions.ArgumentsError{Violations: []actions.Violation{{
			Reason: actions.ReasonSyntax, Message: "the Struct cannot be read as JSON",
		}}}
	}
	return actions.ParseArguments(data)
}

// inexact returns the path of the first number that a Struct cannot carry.
func inexact(v *structpb.Value, path string, depth int) (string, bool) {
	if depth > actions.MaxDepth {
		return "", true // refused as too deep when it is parsed
	}
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return path, actions.CheckStructNumber(kind.NumberValue)
	case *structpb.Value_StructValue:
		for name, field := range kind.StructValue.GetFields() {
			if at, ok := inexact(field, strings.TrimPrefix(path+"."+name, "."), depth+1); !ok {
				return at, false
			}
		}
	case *structpb.Value_ListValue:
		for i, item := range kind.ListValue.GetValues() {
			if at, ok := inexact(item, fmt.Sprintf("%s[%d]", path, i), depth+1); !ok {
				return at, false
			}
		}
	}
	return "", true
}

// argumentsRefusal puts the paths of arguments below the field that holds them.
func argumentsRefusal(err error) error {
	var bad *actions.ArgumentsError
	if !errors.As(err, &bad) {
		return err
	}
	r := &refusal{code: codes.InvalidArgument, reason: reasonInvalidArguments}
	for _, v := range bad.Violations {
		switch {
		case v.Field == "":
			v.Field = "arguments"
		case strings.HasPrefix(v.Field, "["):
			v.Field = "arguments" + v.Field
		default:
			v.Field = "arguments." + v.Field
		}
		r.violations = append(r.violations, v)
	}
	r.message = summary(r.violations)
	return r
}

// keyRefusal names the fields of the request that a key would come from.
func keyRefusal(err error) error {
	var bad *actions.ArgumentsError
	if !errors.As(err, &bad) {
		return err
	}
	r := &refusal{code: codes.InvalidArgument, reason: reasonInvalidRequest}
	for _, v := range bad.Violations {
		switch v.Reason {
		case actions.ReasonKeyRequired:
			r.reason = actions.ReasonKeyRequired
		case actions.ReasonKeyPartMissing:
			r.reason = actions.ReasonKeyRequired
			switch {
			case v.Field == "run_id" || v.Field == "step_id":
				v.Field = "run." + v.Field
			case !strings.HasPrefix(v.Field, "["):
				v.Field = "arguments." + v.Field
			}
		}
		r.violations = append(r.violations, v)
	}
	r.message = summary(r.violations)
	return r
}

// Limits of texts in a request, in bytes.
const (
	maxContextText = 255
	maxNote        = 2000
	maxCancelNote  = 500
)

// checkTexts refuses context that is too long or does not print.
func checkTexts(req *oncewardv1.RequestActionRequest) error {
	var bad []actions.Violation
	for field, text := range map[string]string{
		"run.run_id": req.GetRun().GetRunId(), "run.step_id": req.GetRun().GetStepId(),
		"run.tool_call_id": req.GetRun().GetToolCallId(), "run.tool_version": req.GetRun().GetToolVersion(),
		"run.agent": req.GetRun().GetAgent(), "intent_id": req.GetIntentId(),
	} {
		if v, ok := checkName(field, text); !ok {
			bad = append(bad, v)
		}
	}
	if req.GetRun().GetAttempt() < 0 {
		bad = append(bad, actions.Violation{Field: "run.attempt", Reason: actions.ReasonRange, Message: "cannot be negative"})
	}
	if wait := req.GetWait(); wait != nil {
		if d := wait.AsDuration(); !wait.IsValid() || d < 0 || d > maxWait {
			bad = append(bad, actions.Violation{Field: "wait", Reason: actions.ReasonRange, Message: fmt.Sprintf("wants 0 s to %d s", int(maxWait/time.Second))})
		}
	}
	if len(bad) > 0 {
		return invalid(bad...)
	}
	return nil
}

// checkName refuses what cannot name anything: names are one line.
func checkName(field, text string) (actions.Violation, bool) {
	return check(field, text, maxContextText, unicode.IsControl)
}

// checkText refuses what people cannot read: it may have lines and tabs.
func checkText(field, text string, limit int) (actions.Violation, bool) {
	return check(field, text, limit, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

func check(field, text string, limit int, unwanted func(rune) bool) (actions.Violation, bool) {
	if len(text) > limit {
		return actions.Violation{Field: field, Reason: actions.ReasonLength, Message: fmt.Sprintf("is longer than %d bytes", limit)}, false
	}
	if strings.ContainsFunc(text, unwanted) {
		return actions.Violation{Field: field, Reason: actions.ReasonPattern, Message: "holds control characters"}, false
	}
	return actions.Violation{}, true
}

func clipped(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
