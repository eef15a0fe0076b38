package storage

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/bench/noop"
	"github.com/onceward/onceward/ledger"
)

// ArgumentsHash is that of every request that is measured.
func ArgumentsHash() (ledger.Hash, error) {
	args, err := actions.ParseArguments([]byte(noop.Arguments))
	if err != nil {
		return ledger.Hash{}, err
	}
	return args.IdentityHash(nil), nil
}

// sealedSize is about that of the arguments, sealed.
const sealedSize = 160

// newOpening is a claim as the server makes it.
func newOpening(tenant, key string) (ledger.Opening, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return ledger.Opening{}, err
	}
	claim, err := uuid.NewRandom()
	if err != nil {
		return ledger.Opening{}, err
	}
	spec := (&noop.Adapter{}).Spec().WithDefaults()
	argsHash, err := ArgumentsHash()
	if err != nil {
		return ledger.Opening{}, err
	}
	requestHash := ledger.Hash(sha256.Sum256([]byte(key)))
	return ledger.Opening{
		Operation: ledger.Operation{
			Tenant: tenant, ID: id.String(), Key: key, KeySource: "caller", ActionType: noop.Type,
			AdapterVersion: spec.Version, ContractVersion: spec.Contract.Version,
			ArgsHash: argsHash, RequestHash: &requestHash, RequestedBy: "bench",
			Run: ledger.Run{RunID: "run_8f2c91", StepID: "refund", ToolCallID: "call_5"},
		},
		Event:  ledger.Claim,
		Sealed: bytes.Repeat([]byte{0x5e}, sealedSize),
		Start: ledger.Start{
			ClaimID: claim.String(), Lease: spec.Timeout + 15*time.Second, Horizon: spec.Contract.Keys.Horizon(),
			ProviderKey: strings.ReplaceAll(claim.String(), "-", "")[:actions.ProviderKeyLength],
		},
		Window: spec.Window, Provider: spec.Contract.Provider,
	}, nil
}

// receipt is the change that records the provider's answer.
func receipt(op ledger.Operation, providerKey string) ledger.Change {
	return ledger.Change{
		Operation: op, Event: ledger.Confirm, Actor: "worker", Effect: ledger.EffectApplied,
		ProviderReference: "re_" + providerKey,
		Receipt:           fmt.Appendf(nil, `{"id":"re_%s","object":"refund","status":"succeeded","amount":4900,"currency":"usd","order":"%s"}`, providerKey, op.ID),
		AttemptOutcome:    actions.Applied.String(),
	}
}
