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
	// policy is the tenant's, as it was when the request came; decision is what it
	// says so far: about the action type, and once it was judged about all of it.
	policy   *policy.Policy
	terms    *policy.Action
	decision policy.Decision
	// corrects is the failed operation that the request names, if it does.
	corrects *ledger.Operation
}

// same reports whether an operation is the one that is asked for: a key stands
// for one action type and one set of arguments (L5).
func (a *admission) same(op *ledger.Operation) bool {
	return op.ActionType == a.action.Spec.Type && op.ArgsHash == a.hash
}

// screen begins an admission with what needs no arguments: action type, policy.
// Where the policy refuses there is an admission, too, with its decision. It is made
// in room, which is the caller's, so that a request from memory needs no other.
func (s *Server) screen(room *admission, p policy.Principal, req *oncewardv1.RequestActionRequest) (*admission, error) {
	if err := checkTexts(req); err != nil {
		return nil, err
	}
	action, ok := s.Registry.Get(req.GetActionType())
	if !ok {
		return nil, refuse(codes.NotFound, reasonUnknownActionType, "no action type %q; CatalogService.ListActionTypes has those there are", clipped(req.GetActionType()))
	}
	terms, err := s.terms.of(action)
	if err != nil {
		return nil, err
	}
	room.principal, room.action, room.policy, room.terms = p, action, s.Policies(p.Tenant), terms
	room.decision = room.policy.DecideType(p, &action.Spec)
	return room, refusalOf(&room.decision)
}

// admitArguments completes an admission with the arguments and the key.
func (s *Server) admitArguments(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest) error {
	args, err := parseArguments(req)
	if err == nil {
		err = a.action.Validate(args)
	}
	if err != nil {
		return argumentsRefusal(err)
	}
	a.args, a.hash = args, args.IdentityHash(a.action.Spec.AdvisoryArgs)
	return s.resolveReferences(ctx, a, req)
}

// keyInput is what a key comes from: the arguments are there once they were
// admitted.
func keyInput(a *admission, req *oncewardv1.RequestActionRequest) actions.KeyInput {
	return actions.KeyInput{
		Tenant: a.principal.Tenant, CallerKey: req.GetIdempotencyKey(),
		Run: req.GetRun().GetRunId(), Step: req.GetRun().GetStepId(),
		DistinctFrom: req.GetDistinctFromOperationId(), Arguments: a.args,
	}
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
	key, err := actions.ComposeKey(a.action.Spec, keyInput(a, req))
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

// structArguments reads a Struct.
func structArguments(s *structpb.Struct) (actions.Arguments, error) {
	value, ok := structObject(s, 1)
	if !ok {
		return actions.Arguments{}, &actions.ArgumentsError{Violations: []actions.Violation{{
			Reason: actions.ReasonSyntax, Message: "the Struct cannot be read as JSON",
		}}}
	}
	return actions.StructuredArguments(value)
}

// structObject turns a Struct into Go values, or returns false where a value in
// it has no kind. What is nested too deep stays empty; it is refused for that.
func structObject(s *structpb.Struct, depth int) (map[string]any, bool) {
	object := make(map[string]any, len(s.GetFields()))
	if depth > actions.MaxDepth {
		return object, true
	}
	for name, field := range s.GetFields() {
		v, ok := structValue(field, depth)
		if !ok {
			return nil, false
		}
		object[name] = v
	}
	return object, true
}

func structValue(v *structpb.Value, depth int) (any, bool) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return nil, true
	case *structpb.Value_BoolValue:
		return kind.BoolValue, true
	case *structpb.Value_NumberValue:
		return kind.NumberValue, true
	case *structpb.Value_StringValue:
		return kind.StringValue, true
	case *structpb.Value_StructValue:
		return structObject(kind.StructValue, depth+1)
	case *structpb.Value_ListValue:
		return structList(kind.ListValue, depth+1)
	default:
		return nil, false
	}
}

func structList(l *structpb.ListValue, depth int) ([]any, bool) {
	list := make([]any, 0, len(l.GetValues()))
	if depth > actions.MaxDepth {
		return list, true
	}
	for _, item := range l.GetValues() {
		v, ok := structValue(item, depth)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, true
}

// argumentsRefusal puts the paths of arguments below the field that holds them.
func argumentsRefusal(err error) error {
	var bad *actions.ArgumentsError
	if !errors.As(err, &bad) {
		return err
	}
	r := &refusal{code: codes.InvalidArgument, reason: reasonInvalidArguments}
	for _, v := range bad.Violations {
		r.violations = append(r.violations, v.InRequest())
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
			if v.Field == "run_id" || v.Field == "step_id" {
				v.Field = "run." + v.Field
			} else {
				v = v.InRequest()
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
	run := req.GetRun()
	for _, name := range [...]struct{ field, text string }{
		{"run.run_id", run.GetRunId()}, {"run.step_id", run.GetStepId()},
		{"run.tool_call_id", run.GetToolCallId()}, {"run.tool_version", run.GetToolVersion()},
		{"run.agent", run.GetAgent()}, {"run.instance", run.GetInstance()}, {"intent_id", req.GetIntentId()},
	} {
		if v, ok := checkName(name.field, name.text); !ok {
			bad = append(bad, v)
		}
	}
	if run.GetAttempt() < 0 {
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
