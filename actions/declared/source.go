package declared

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/actions/webhook"
)

// source reads a provider's webhooks.
type source struct {
	provider string
	secrets  []definition.Secret
	secret   func(definition.Secret, string) (string, error)
	verifier *webhook.Verifier
	config   map[string]any
	items    *expr.Expression // nil: the body is one event
	rules    []eventRule
}

var _ actions.Source = (*source)(nil)

// eventRule is a compiled rule: what an event proves.
type eventRule struct {
	holds         *expr.Expression
	id            *expr.Expression
	operation     *expr.Expression // or reference, or both
	reference     *expr.Expression
	kind          actions.Kind
	receipt       *receipt
	code, message *expr.Expression
}

// maxEvents bounds what one message can hold.
const maxEvents = 1000

// NewSource makes the source of a provider's webhooks. It fails with an
// *InvalidError where the definition is wrong or has none.
func NewSource(p *definition.Provider, o Options) (actions.Source, error) {
	envs, err := newEnvironments()
	if err != nil {
		return nil, err
	}
	c := &compiler{envs: envs}
	out := newSource(c, p, o)
	if err := c.err(p.Name); err != nil {
		return nil, err
	}
	return out, nil
}

// newSource compiles the webhooks of a provider; everything that is wrong is in c.
func newSource(c *compiler, p *definition.Provider, o Options) *source {
	w := p.Webhooks
	if w == nil {
		c.bad("webhooks", "there are none")
		return nil
	}
	out := &source{
		provider: p.Name, secrets: w.Verify.Secrets, secret: o.Secret, config: configOf(p),
		items: c.expression(c.envs.message, "webhooks.items", w.Items),
	}
	if len(out.secrets) == 0 || o.Secret == nil {
		c.bad("webhooks.verify.secrets", "there is none, so that nothing could be verified")
	}
	var err error
	if out.verifier, err = webhook.New(c.verification("webhooks.verify", w.Verify)); err != nil {
		c.bad("webhooks.verify", "%s", strings.TrimPrefix(err.Error(), "webhook: "))
	}
	for i, e := range w.Events {
		out.rules = append(out.rules, c.event(element("webhooks.events", i), e))
	}
	return out
}

// verification maps the words of a file to a scheme.
func (c *compiler) verification(field string, v definition.Verify) webhook.Rules {
	rules := webhook.Rules{
		Tolerance: v.Tolerance.Std(), Header: v.Header, Prefix: v.Prefix, TimestampHeader: v.TimestampHeader,
	}
	var known bool
	if rules.Scheme, known = map[string]webhook.Scheme{
		"standard": webhook.Standard, "stripe": webhook.Stripe, "github": webhook.GitHub, "hmac": webhook.HMAC,
	}[v.Scheme]; !known {
		c.bad(field+".scheme", "%q is unknown: want standard, stripe, github or hmac", v.Scheme)
	}
	if rules.Algorithm, known = map[string]webhook.Algorithm{
		"": webhook.SHA256, "sha256": webhook.SHA256, "sha512": webhook.SHA512, "sha1": webhook.SHA1,
	}[v.Algorithm]; !known {
		c.bad(field+".algorithm", "%q is unknown: want sha256, sha512 or sha1", v.Algorithm)
	}
	if rules.Encoding, known = map[string]webhook.Encoding{
		"": webhook.Hex, "hex": webhook.Hex, "base64": webhook.Base64,
	}[v.Encoding]; !known {
		c.bad(field+".encoding", "%q is unknown: want hex or base64", v.Encoding)
	}
	for i, text := range v.Content {
		part, err := webhook.ParsePart(text)
		if err != nil {
			c.bad(element(field+".content", i), "%s", strings.TrimPrefix(err.Error(), "webhook: "))
			continue
		}
		rules.Content = append(rules.Content, part)
	}
	return rules
}

func (c *compiler) event(field string, e definition.Event) eventRule {
	env := c.envs.event
	out := eventRule{
		holds: c.expression(env, field+".if", e.If), id: c.expression(env, field+".id", e.ID),
		operation: c.expression(env, field+".operation", e.Operation), reference: c.expression(env, field+".reference", e.Reference),
		receipt: c.receipt(env, field+".receipt", e.Receipt),
		code:    c.expression(env, field+".code", e.Code), message: c.expression(env, field+".message", e.Message),
	}
	if e.If == "" || e.ID == "" {
		c.bad(field, "want if, and id: replays are known by it")
	}
	if e.Operation == "" && e.Reference == "" {
		c.bad(field, "want operation or reference: which operation it is about")
	}
	kind, _ := kindOf(e.Is)
	switch kind {
	case actions.Applied, actions.Rejected, actions.Accepted:
		out.kind = kind
	default:
		c.bad(field+".is", "%q is no evidence: want applied, rejected or accepted", e.Is)
	}
	if (out.kind == actions.Applied) != (e.Receipt != nil) {
		c.bad(field, "a receipt goes with is: applied, and only with it")
	}
	return out
}

// Provider is the name of the provider.
func (s *source) Provider() string { return s.provider }

// Events verifies a message and returns what its events prove.
func (s *source) Events(tenant string, m actions.Message, now time.Time) ([]actions.Event, error) {
	secrets := make([][]byte, 0, len(s.secrets))
	for _, ref := range s.secrets {
		secret, err := s.secret(ref, tenant)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", webhook.ErrSecrets, err)
		}
		secrets = append(secrets, []byte(secret))
	}
	if err := s.verifier.Verify(secrets, m, now); err != nil {
		return nil, err
	}
	list, header, err := s.split(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", actions.ErrMalformed, err)
	}
	var events []actions.Event
	for _, item := range list {
		event, ok, err := s.read(expr.Vars{"event": item, "header": header, "config": s.config})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", actions.ErrMalformed, err)
		}
		if ok {
			events = append(events, event)
		}
	}
	return events, nil
}

// split returns the events of a verified message, and its headers as expressions
// see them.
func (s *source) split(m actions.Message) (list []any, header map[string]any, err error) {
	header = map[string]any{}
	for name := range m.Header {
		if values := m.Values(name); len(values) > 0 {
			header[strings.ToLower(name)] = httpaction.CleanText(values[0])
		}
	}
	body, err := httpaction.ParseJSON(m.Body)
	if err != nil {
		return nil, nil, err
	}
	if s.items == nil {
		return []any{body}, header, nil
	}
	value, err := s.items.Eval(expr.Vars{"body": body, "header": header, "config": s.config})
	if err != nil {
		return nil, nil, err
	}
	list, ok := value.([]any)
	if !ok || len(list) > maxEvents {
		return nil, nil, errors.New("the message has no list of events, or too many")
	}
	return list, header, nil
}

// read applies the first rule that holds. An event that no rule is about, or that
// names no operation, says nothing.
func (s *source) read(vars expr.Vars) (event actions.Event, ok bool, err error) {
	for _, r := range s.rules {
		if holds, err := r.holds.Bool(vars); err != nil || !holds {
			continue
		}
		id, _, err := r.id.Text(vars)
		if err != nil || id == "" {
			return event, false, errors.New("an event has no id")
		}
		event = actions.Event{
			ID: httpaction.CleanText(id), OperationID: textOrNone(r.operation, vars), Reference: textOrNone(r.reference, vars),
			Outcome: r.outcome(vars),
		}
		event.Detail = httpaction.SafeText("webhook of " + s.provider + ": event " + id + " says " + event.Outcome.Kind.String())
		return event, event.OperationID != "" || event.Reference != "", nil
	}
	return event, false, nil
}

// outcome is what an event proves.
func (r eventRule) outcome(vars expr.Vars) actions.Outcome {
	switch r.kind {
	case actions.Applied:
		receipt, err := r.receipt.read(vars)
		if err == nil {
			return actions.Outcome{Kind: actions.Applied, Receipt: receipt}
		}
		return actions.Outcome{
			Kind: actions.AppliedNoReceipt, Receipt: actions.Receipt{Reference: receipt.Reference},
			Failure: actions.Failure{Code: "receipt_missing", Message: "The provider's event reports success without a usable receipt.", Evidence: httpaction.SafeText(err.Error())},
		}
	case actions.Rejected:
		code, message := textOrNone(r.code, vars), textOrNone(r.message, vars)
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{
			Code:     orText(httpaction.SafeCode(code), "ended"),
			Message:  orText(httpaction.SafeText(message), "The provider ended it without an effect."),
			Evidence: "the provider's own event",
		}}
	default:
		return actions.Outcome{Kind: r.kind, Failure: actions.Failure{
			Code: "accepted", Message: "The provider is still at work on it.", Evidence: "the provider's own event",
		}}
	}
}

// textOrNone evaluates an optional expression; one that fails is empty.
func textOrNone(x *expr.Expression, vars expr.Vars) string {
	if x == nil {
		return ""
	}
	text, _, err := x.Text(vars)
	if err != nil {
		return ""
	}
	return httpaction.CleanText(text)
}
