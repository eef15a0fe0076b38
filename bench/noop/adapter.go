package noop

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/actions"
)

// Type is the action type's name.
const Type = "bench.noop"

// Arguments are those of every request: what differs is the key.
const Arguments = `{"charge_id":"ch_3PqLx2eZvKYlo2C","amount":4900,"currency":"usd","reason":"requested_by_customer"}`

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["charge_id", "amount", "currency"],
  "properties": {
    "charge_id": {"type": "string", "pattern": "^ch_[A-Za-z0-9]{1,40}$"},
    "amount": {"type": "integer", "minimum": 1},
    "currency": {"type": "string", "minLength": 3, "maxLength": 3},
    "reason": {"type": "string", "maxLength": 100}
  }
}`

// Adapter counts the effects that it caused. It is safe for concurrent use.
type Adapter struct{ effects atomic.Int64 }

var _ actions.Adapter = (*Adapter)(nil)

// Effects is how many there were.
func (a *Adapter) Effects() int64 { return a.effects.Load() }

// Spec implements actions.Adapter.
func (*Adapter) Spec() actions.Spec {
	return actions.Spec{
		Type: Type, Version: "1", Owner: "bench", Risk: actions.RiskLow,
		Description: "Do nothing, at once.",
		Schema:      json.RawMessage(schema),
		Contract: actions.Contract{
			Provider: "noop", Version: "1",
			Keys: actions.KeyRules{Honoured: true, Window: 24 * time.Hour, Margin: time.Hour},
		},
	}
}

// Validate implements actions.Adapter.
func (*Adapter) Validate(actions.Arguments) error { return nil }

// Execute implements actions.Adapter.
func (a *Adapter) Execute(_ context.Context, call actions.Call) actions.Outcome {
	a.effects.Add(1)
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{
		Reference: "re_" + call.ProviderKey,
		JSON:      json.RawMessage(`{"id":"re_` + call.ProviderKey + `","object":"refund","status":"succeeded","amount":4900,"currency":"usd","order":"` + call.OperationID + `"}`),
	}}
}
