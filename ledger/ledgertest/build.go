package ledgertest

import (
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/ledger"
)

// Times of what the builders make: long enough not to end under a test.
const (
	Lease   = 10 * time.Minute
	Horizon = 24 * time.Hour
	Window  = 30 * 24 * time.Hour
)

// Reference is the provider's reference in changes made by Change.
const Reference = "re_1"

// Receipt is the receipt in changes made by Change.
const Receipt = `{"id":"re_1","amount":1.50}`

// ID returns a new operation, review or claim id.
func ID() string { return uuid.Must(uuid.NewV7()).String() }

// Hash returns the hash of some text, for arguments and requests.
func Hash(text string) ledger.Hash { return sha256.Sum256([]byte(text)) }

// Opening returns a new operation under its own key that is claimed at once.
// Change what the test is about before opening it.
func Opening(tenant string) ledger.Opening {
	id := ID()
	request := Hash("request")
	return ledger.Opening{
		Operation: ledger.Operation{
			Tenant: tenant, ID: id, Key: "key-" + id, KeySource: "caller",
			ActionType: "demo.refund.create", AdapterVersion: "1", ContractVersion: "1",
			ArgsHash: Hash("arguments"), RequestHash: &request,
			RequestedBy: "agent:test", Run: ledger.Run{RunID: "run-1", StepID: "step-1", Attempt: 1, Agent: "test"},
		},
		Event:  ledger.Claim,
		Sealed: []byte("sealed arguments"),
		Start:  Start(),
		Window: Window,
	}
}

// Recorded is Opening for an operation that waits to be sent.
func Recorded(tenant string) ledger.Opening {
	o := Opening(tenant)
	o.Event, o.Start, o.Operation.RequestHash = ledger.Record, ledger.Start{}, nil
	return o
}

// Asked is Opening for an operation that waits for approval.
func Asked(tenant string) ledger.Opening {
	o := Recorded(tenant)
	o.Event, o.Review = ledger.Escalate, Review(ledger.ApprovalRequired)
	return o
}

// Start returns a claim with a lease and a horizon.
func Start() ledger.Start {
	return ledger.Start{ClaimID: ID(), Lease: Lease, ProviderKey: "0123456789abcdefghijklmnop", Horizon: Horizon}
}

// Review returns a question that has lapsed when anybody looks, so that every
// event of a review can be tried on it.
func Review(reason ledger.ReviewReason) *ledger.ReviewOpening {
	return &ledger.ReviewOpening{ID: ID(), Reason: reason, Detail: "May it be sent?", ExpiresIn: time.Microsecond}
}

// Claiming returns another attempt of an operation: by Claim from pending, by
// Replay from unknown.
func Claiming(op ledger.Operation) ledger.Claiming {
	c := ledger.Claiming{Operation: op, Event: ledger.Claim, Start: Start(), RequestHash: Hash("request"), Actor: "worker"}
	if op.State == ledger.Unknown {
		c.Event, c.Actor = ledger.Replay, "reconciler"
	}
	return c
}

// Change returns a move of an operation with what belongs to it: a receipt
// with Confirm, a failure where it fails, a review where a person is asked, a
// decision where one is made. The next attempt or look-up is due at once.
func Change(op ledger.Operation, event ledger.Event) ledger.Change {
	c := ledger.Change{Operation: op, Event: event, Actor: "worker", Detail: "because of " + string(event)}
	if op.State == ledger.Running {
		c.AttemptOutcome = string(event)
	}
	to, _ := ledger.Next(op.State, event)
	switch to {
	case ledger.Succeeded:
		c.Effect, c.ProviderReference, c.Receipt = ledger.EffectApplied, Reference, []byte(Receipt)
	case ledger.Unknown:
		c.Effect, c.Reason, c.InDoubt = ledger.EffectUnknown, "ambiguous", true
		if op.State != ledger.Running {
			c.Reason = ledger.ReasonRestored // the only reason to doubt what is not under way
		}
	case ledger.NeedsReview:
		c.Effect, c.Reason, c.InDoubt = op.Effect, op.Reason, op.InDoubt
		c.Review = Review(ledger.Inconclusive)
		if event == ledger.Contradict {
			c.Effect, c.InDoubt, c.Review.Reason = ledger.EffectApplied, true, ledger.Contradicted
		}
	case ledger.Pending, ledger.Failed:
		c.Effect = ledger.EffectNotApplied
		if op.Attempt == 0 {
			c.Effect = ledger.EffectNone
		}
		c.Failure = &ledger.Failure{Code: string(event), Message: "Not applied."}
	default: // not by a Change
	}
	if op.State == ledger.NeedsReview {
		c.Actor, c.Decision = "person:test", &ledger.ReviewClosing{Decision: decision(event), By: "person:test", Note: "looked"}
		if op.Review.Open() {
			c.Decision.ReviewID = op.Review.ID
		}
	}
	return c
}

func decision(event ledger.Event) ledger.Decision {
	switch event {
	case ledger.Approve:
		return ledger.Approved
	case ledger.Confirm:
		return ledger.Confirmed
	case ledger.Release:
		return ledger.NotAppliedRetry
	case ledger.Refuse:
		return ledger.NotAppliedClose
	case ledger.Expire:
		return ledger.Expired
	case ledger.Cancel:
		return ledger.Cancelled
	default:
		return ledger.Rejected
	}
}
