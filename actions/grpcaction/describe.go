package grpcaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Limits of a description.
const (
	maxActionTypes = 1000
	// maxNameBytes bounds versions, provider and owner: they are sent with
	// each call, or recorded with each operation.
	maxNameBytes = 255
)

// Describe asks the adapter for its action types and returns an adapter for
// each, in the order of the answer. Those that can look up are [actions.Looker]
// too; all are [actions.Renderer].
//
// It fails, and nothing may be registered, when the adapter does not answer
// within DescribeTimeout, when a description is not valid (all faults are
// reported at once), when it has a field that this program does not know, and,
// with ErrChanged, when a type differs from the last description of it that
// this client accepted and has the same version.
//
// Adapters of earlier calls stay usable until the client is closed.
func (c *Client) Describe(ctx context.Context) ([]actions.Adapter, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.DescribeTimeout)
	defer cancel()
	answer, err := oncewardv1.NewAdapterServiceClient(c.conn).Describe(ctx, &oncewardv1.DescribeRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("grpcaction: describe %s: %w (does a process that serves %s run there?)",
			c.options.Address, err, oncewardv1.AdapterService_ServiceDesc.ServiceName)
	}
	adapters, err := c.adapters(answer)
	if err != nil {
		return nil, fmt.Errorf("grpcaction: the description by %s is refused: %w", c.options.Address, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := Compare(c.described, adapters); err != nil {
		return nil, fmt.Errorf("grpcaction: the description by %s is refused: %w", c.options.Address, err)
	}
	c.described = adapters
	return adapters, nil
}

func (c *Client) adapters(answer *oncewardv1.DescribeResponse) ([]actions.Adapter, error) {
	described := answer.GetActionTypes()
	if len(described) == 0 || len(described) > maxActionTypes {
		return nil, fmt.Errorf("it has %d action types, want 1 to %d", len(described), maxActionTypes)
	}
	if len(answer.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("it has a field that this Onceward does not know: upgrade Onceward, or do not set it")
	}
	env, err := expr.NewEnv("args")
	if err != nil {
		return nil, err
	}
	var adapters []actions.Adapter
	var errs []error
	for _, d := range described {
		spec, err := specOf(d)
		spec = c.options.installed(spec)
		if err = errors.Join(err, compiled(env, spec.Spending)); err != nil {
			errs = append(errs, fmt.Errorf("action type %q: %w", oneLine(d.GetName()), err))
			continue
		}
		adapters = append(adapters, c.newAdapter(spec, d.GetCanLookUp()))
	}
	if _, err := actions.NewRegistry(adapters...); err != nil {
		errs = append(errs, err)
	}
	return adapters, errors.Join(errs...)
}

// specOf translates a description. What a Spec can say wrong by itself is left
// to actions.NewRegistry.
func specOf(d *oncewardv1.ActionTypeDescription) (actions.Spec, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if where := unknownField(d.ProtoReflect(), ""); where != "" {
		// It may narrow what is allowed: running without it is a guess.
		bad("%s: a field that this Onceward does not know: upgrade Onceward, or do not set it", where)
	}
	length := func(field string, p *durationpb.Duration) time.Duration {
		if p != nil && !p.IsValid() {
			bad("%s: not a valid duration", field)
		}
		return p.AsDuration()
	}
	contract := d.GetContract()
	for _, name := range []struct{ field, text string }{
		{"version", d.GetVersion()}, {"owner", d.GetOwner()},
		{"contract.provider", contract.GetProvider()}, {"contract.version", contract.GetVersion()},
	} {
		if len(name.text) > maxNameBytes || name.text != oneLine(name.text) {
			bad("%s: want one line of at most %d bytes", name.field, maxNameBytes)
		}
	}
	spec := actions.Spec{
		Type: d.GetName(), Version: d.GetVersion(), Description: d.GetDescription(), Owner: d.GetOwner(),
		Schema:  json.RawMessage(d.GetArgumentsSchemaJson()),
		HashKey: d.GetHashKey(), AdvisoryArgs: d.GetAdvisoryArguments(),
		RequiresApproval: d.GetRequiresApproval(), ApprovalTTL: length("approval_ttl", d.GetApprovalTtl()),
		Contract: actions.Contract{
			Provider: contract.GetProvider(), Version: contract.GetVersion(),
			Keys: actions.KeyRules{
				Honoured: contract.GetKeys().GetHonoured(), MaxLength: int(contract.GetKeys().GetMaxLength()),
				Window: length("contract.keys.window", contract.GetKeys().GetWindow()), Margin: length("contract.keys.margin", contract.GetKeys().GetMargin()),
				StoresFailures: contract.GetKeys().GetStoresFailures(),
				InFlight:       length("contract.keys.in_flight", contract.GetKeys().GetInFlight()),
			},
			Lookup: actions.LookupRules{
				Authoritative: contract.GetLookUp().GetAuthoritative(), SettleTime: length("contract.look_up.settle_time", contract.GetLookUp().GetSettleTime()),
				NegativeReads: int(contract.GetLookUp().GetNegativeReads()), ReadGap: length("contract.look_up.read_gap", contract.GetLookUp().GetReadGap()),
			},
			LateLanding: length("contract.late_landing", contract.GetLateLanding()),
			EventWait:   length("contract.event_wait", contract.GetEventWait()),
		},
		Timeout: length("attempt_timeout", d.GetAttemptTimeout()), Window: length("window", d.GetWindow()),
		MaxAttempts: int(d.GetMaxAttempts()), MaxResolves: int(d.GetMaxResolves()),
		Spending: actions.Spending{
			Amount: d.GetSpending().GetAmount(), Currency: d.GetSpending().GetCurrency(), Counterparty: d.GetSpending().GetCounterparty(),
		},
		SensitiveArgs: d.GetSensitiveArguments(), SensitiveReceipt: d.GetSensitiveReceiptFields(),
		TokenAudience: d.GetTokenAudience(),
	}
	spec.Key = keyParts(d.GetKeyRecipe())
	for i, intent := range d.GetIntents() {
		spec.Intents = append(spec.Intents, actions.Intent{
			Name: intent.GetName(), Parts: keyParts(intent.GetParts()), Quiet: length(fmt.Sprintf("intents[%d].quiet", i), intent.GetQuiet()),
		})
	}
	var known bool
	if spec.Risk, known = riskOf(d.GetRisk()); !known {
		bad("risk: a value that this Onceward does not know: %d", d.GetRisk())
	}
	if spec.ExpiredKey, known = expiredKeyOf(d.GetExpiredKey()); !known {
		bad("expired_key: a value that this Onceward does not know: %d", d.GetExpiredKey())
	}
	if spec.Contract.Keys.MaxLength < 0 {
		bad("contract.keys.max_length is negative")
	}
	if contract.GetLookUp() != nil && !d.GetCanLookUp() {
		bad("contract.look_up is set, but can_look_up is not: who would look?")
	}
	return spec, errors.Join(errs...)
}

func keyParts(parts []*oncewardv1.KeyPart) (out []actions.KeyPart) {
	for _, part := range parts {
		out = append(out, actions.KeyPart{Name: part.GetName(), From: part.GetFrom()})
	}
	return out
}

// installed adds to a description what the installation says of the adapter.
func (o Options) installed(spec actions.Spec) actions.Spec {
	spec.Contract.Protection = o.Protection
	if spec.TokenAudience == "" {
		spec.TokenAudience = o.TokenAudience
	}
	return spec
}

// compiled reports what is no expression over args.
func compiled(env *expr.Env, s actions.Spending) error {
	var errs []error
	for _, x := range []struct{ field, text string }{
		{"amount", s.Amount}, {"currency", s.Currency}, {"counterparty", s.Counterparty},
	} {
		if x.text == "" {
			continue
		}
		if _, err := env.Expression(x.text); err != nil {
			errs = append(errs, fmt.Errorf("spending.%s: %w", x.field, err))
		}
	}
	return errors.Join(errs...)
}

func riskOf(r oncewardv1.Risk) (actions.Risk, bool) {
	switch r {
	case oncewardv1.Risk_RISK_UNSPECIFIED:
		return actions.RiskUnspecified, true
	case oncewardv1.Risk_RISK_LOW:
		return actions.RiskLow, true
	case oncewardv1.Risk_RISK_MEDIUM:
		return actions.RiskMedium, true
	case oncewardv1.Risk_RISK_HIGH:
		return actions.RiskHigh, true
	default:
		return actions.RiskHigh, false
	}
}

func expiredKeyOf(e oncewardv1.ExpiredKey) (actions.ExpiredKey, bool) {
	switch e {
	case oncewardv1.ExpiredKey_EXPIRED_KEY_UNSPECIFIED, oncewardv1.ExpiredKey_EXPIRED_KEY_REJECT:
		return actions.Reject, true
	case oncewardv1.ExpiredKey_EXPIRED_KEY_REUSE:
		return actions.Reuse, true
	default:
		return actions.Reject, false
	}
}

// unknownField returns where in a message there is a field that its descriptor
// does not have, or "".
func unknownField(m protoreflect.Message, path string) string {
	if len(m.GetUnknown()) > 0 {
		return path + "?"
	}
	found := ""
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field.Message() == nil {
			return true
		}
		at := path + string(field.Name()) + "."
		if field.IsList() {
			for i := range v.List().Len() {
				found = unknownField(v.List().Get(i).Message(), at)
				if found != "" {
					return false
				}
			}
			return true
		}
		found = unknownField(v.Message(), at)
		return found == ""
	})
	return found
}
