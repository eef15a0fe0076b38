package dispatch

import (
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// Tokens makes operation tokens.
type Tokens interface {
	// Mint makes the token of the current attempt of an operation for the service
	// audience, valid for life from now. An error means that there is none.
	Mint(op ledger.Operation, audience string, life time.Duration) (string, error)
}

// withToken is the call with its operation token, where the operation needs one.
// It reports false when there is none to be had: the service would refuse the
// write, so that nothing is sent.
//
// The token lives as long as the attempt may take, and not as long as the lease:
// what is between them is room for clocks that differ, so that no service takes
// a write that was given up here.
func (d *Dispatcher) withToken(call actions.Call, op ledger.Operation, spec actions.Spec) (actions.Call, bool) {
	if op.Stage != ledger.StageEnforce || spec.TokenAudience == "" {
		return call, true
	}
	if d.Tokens == nil {
		d.log(op).Error("not sent: the action type wants operation tokens, and this process makes none")
		return call, false
	}
	token, err := d.Tokens.Mint(op, spec.TokenAudience, spec.Timeout)
	if err != nil {
		d.log(op).Error("not sent: no operation token", "error", err)
		return call, false
	}
	call.OperationToken = token
	return call, true
}

// noToken is the outcome of an attempt that was not sent for want of a token.
func noToken() actions.Outcome {
	return actions.Outcome{Kind: actions.NotApplied, Failure: actions.Failure{
		Code: "no_operation_token", Message: "It was not sent: Onceward could not sign it.", Evidence: "not sent: no operation token"}}
}
