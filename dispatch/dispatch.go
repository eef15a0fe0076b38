package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/optrace"
)

// Ledger is what dispatch needs of the store. The errors are those of the
// ledger package.
type Ledger interface {
	Start(ctx context.Context, c ledger.Claiming) (ledger.Operation, error)
	Apply(ctx context.Context, c ledger.Change) (ledger.Operation, error)
	AddEvidence(ctx context.Context, e ledger.Evidence) (ledger.Operation, error)
	Get(ctx context.Context, tenant, id string) (ledger.Operation, error)
	Arguments(ctx context.Context, op ledger.Operation) ([]byte, error)
}

// Sealer opens arguments that were sealed for an operation.
type Sealer interface {
	Unseal(sealed []byte, tenant, operationID string) ([]byte, error)
}

var (
	// ErrNoAdapter: the operation's action type is not registered here.
	// Nothing was sent.
	ErrNoAdapter = errors.New("dispatch: no adapter for this action type")
	// ErrRequestChanged: the request would no longer be byte for byte the one
	// that was frozen at the first attempt. Nothing was sent.
	ErrRequestChanged = errors.New("dispatch: the request would differ from the one sent before")
	// ErrBusy: as many attempts are under way as may be. Nothing was sent.
	ErrBusy = errors.New("dispatch: too many attempts under way")
)

// defaultLeaseGrace leaves room for a slow ledger on both ways.
const defaultLeaseGrace = 15 * time.Second

// Options configure a Dispatcher.
type Options struct {
	Ledger   Ledger
	Registry *actions.Registry
	Sealer   Sealer
	// Secret derives provider keys; at least 32 bytes, the same on every
	// replica for ever.
	Secret []byte
	// Tokens makes the operation tokens of the stage enforce; without it nothing
	// that wants one is sent.
	Tokens Tokens
	// MaxInFlight bounds the attempts under way; default 1024.
	MaxInFlight int
	// LeaseGrace is how much longer a lease is than its attempt may take: time
	// for the claim to come back from the ledger before the attempt, and for the
	// outcome to be recorded after it. An attempt that cannot begin within half
	// of it is not sent. Shorter means that the operations of a killed process
	// are taken up sooner, and that a slow ledger causes doubt that a patient
	// lease would not; default 15 s.
	LeaseGrace time.Duration
	// Recheck asks, when the write of an operation that a reviewer let go on is
	// about to start, whether it may still be sent. It returns the move to make in its place, or
	// nil. An error means that nothing is sent now. It is required where anything
	// is approved.
	Recheck func(ctx context.Context, op ledger.Operation, action *actions.Action, args actions.Arguments) (*ledger.Change, error)
	// Changed is told every new state of an operation, if set. It must not
	// block.
	Changed func(ledger.Operation)
	Log     *slog.Logger
	// Metrics is told what happens to attempts; nil: nobody is.
	Metrics Metrics
	// Tracers make the spans of attempts; nil: there are none.
	Tracers trace.TracerProvider
}

// Dispatcher makes attempts. It is safe for concurrent use.
type Dispatcher struct {
	Options
	slots   chan struct{}
	running sync.WaitGroup
	workers *workers[claimedAttempt]
	gates   *gates // of tenants' providers
	keys    *providerKeys
	spans   optrace.Tracer
	closed  atomic.Bool
	ctx     context.Context // ends when the process gives up settling
	cancel  context.CancelFunc
}

// New makes a dispatcher. Close it.
func New(o Options) (*Dispatcher, error) {
	if len(o.Secret) < 32 {
		return nil, errors.New("dispatch: the secret of provider keys needs at least 32 bytes")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 1024
	}
	if o.MaxInFlight < 0 || o.LeaseGrace < 0 {
		return nil, errors.New("dispatch: attempts in flight and lease grace cannot be negative")
	}
	if o.LeaseGrace == 0 {
		o.LeaseGrace = defaultLeaseGrace
	}
	if o.Changed == nil {
		o.Changed = func(ledger.Operation) {}
	}
	if o.Metrics == nil {
		o.Metrics = unmeasured{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &Dispatcher{
		Options: o, slots: make(chan struct{}, o.MaxInFlight), gates: newGates(o.Log), keys: newProviderKeys(o.Secret),
		spans: optrace.New(o.Tracers, "github.com/onceward/onceward/dispatch"), ctx: ctx, cancel: cancel,
	}
	d.workers = newWorkers(ctx, d.makeAttempt)
	return d, nil
}

// Abandon stops settling: what is not settled ends as unknown when its lease
// runs out. It is for a shutdown that waited long enough.
func (d *Dispatcher) Abandon() { d.cancel() }

// Close waits for the attempts under way until ctx ends, then abandons them. No
// attempt begins after it was called.
func (d *Dispatcher) Close(ctx context.Context) {
	d.closed.Store(true)
	done := make(chan struct{})
	go func() { d.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		d.Log.Warn("giving up on attempts under way; they end as unknown when their leases run out")
	}
	d.Abandon()
}

// Lease is how long the lease of an attempt is: no byte of it is sent later.
func (d *Dispatcher) Lease(spec actions.Spec) time.Duration { return spec.Timeout + d.LeaseGrace }

// Prepared is an attempt that could be claimed.
type Prepared struct {
	Start       ledger.Start
	RequestHash ledger.Hash
	call        actions.Call
	action      *actions.Action
}

// Prepare derives the provider key and renders the request of an operation,
// and sends nothing. It fails when the request cannot be made.
func (d *Dispatcher) Prepare(action *actions.Action, tenant, operationID string, epoch int, args actions.Arguments) (Prepared, error) {
	key := d.keys.of(tenant, operationID, epoch)
	call := actions.Call{Tenant: tenant, OperationID: operationID, ProviderKey: key, Arguments: args}
	hash, err := requestHash(action, call)
	if err != nil {
		return Prepared{}, err
	}
	return Prepared{
		Start: ledger.Start{
			ClaimID: NewID(), ProviderKey: key,
			Lease:   d.Lease(action.Spec),
			Horizon: action.Spec.Contract.Keys.Horizon(),
		},
		RequestHash: hash, call: call, action: action,
	}, nil
}

// Reserve takes a place among the attempts under way, for one of a provider, or
// fails with ErrBusy when there is none or the dispatcher was closed. The place goes
// to Go, or back by release.
func (d *Dispatcher) Reserve(provider string) (release func(), err error) {
	if d.closed.Load() {
		return nil, ErrBusy
	}
	select {
	case d.slots <- struct{}{}:
		var given atomic.Bool
		return func() {
			if !given.Swap(true) {
				<-d.slots
			}
		}, nil
	default:
		d.Metrics.HeldBack(provider, HeldForPlace)
		return nil, ErrBusy
	}
}

// Go makes a claimed attempt in the background and calls release when it is
// settled. claimed is a time before the claim was sent to the ledger.
func (d *Dispatcher) Go(p Prepared, op ledger.Operation, claimed time.Time, release func()) {
	d.running.Add(1)
	d.workers.do(claimedAttempt{p, op, claimed, release})
}

// claimedAttempt is one that is to be made in the background.
type claimedAttempt struct {
	prepared Prepared
	op       ledger.Operation
	claimed  time.Time
	release  func()
}

func (d *Dispatcher) makeAttempt(a claimedAttempt) {
	defer d.running.Done()
	defer a.release()
	d.run(d.ctx, a.prepared, a.op, a.claimed)
}

// Attempt claims another attempt of an operation (Claim from pending, Replay
// from unknown under the caller's lease), makes it and settles it.
//
// Its errors mean that nothing was sent: ErrNoAdapter, ErrRequestChanged,
// ErrBusy, *ProviderOpenError and *RetryBudgetError (see [Later]),
// ledger.ErrFenced, *ledger.StoppedError, ledger.ErrUnavailable, or that the
// stored arguments cannot be opened. Outcomes are in the operation. A pending operation that is past its time
// is not sent but failed.
func (d *Dispatcher) Attempt(ctx context.Context, op ledger.Operation, event ledger.Event, actor string) (ledger.Operation, error) {
	if event == ledger.Claim && GivenUp(op, time.Now()) {
		return d.giveUp(ctx, op, actor)
	}
	provider, _ := d.Provider(op)
	release, err := d.Reserve(provider)
	if err != nil {
		return ledger.Operation{}, err
	}
	defer release()
	d.running.Add(1)
	defer d.running.Done()
	action, args, err := d.Reload(ctx, op)
	if err != nil {
		return ledger.Operation{}, err
	}
	judged := letGoOn(op)
	if judged {
		change, err := d.recheck(ctx, op, action, args)
		if err != nil || change != nil {
			return d.moveInstead(ctx, change, err)
		}
	}
	p, err := d.Prepare(action, op.Tenant, op.ID, op.Epoch, args)
	if err != nil {
		return ledger.Operation{}, fmt.Errorf("%w: %w", ErrRequestChanged, err)
	}
	if op.RequestHash != nil && *op.RequestHash != p.RequestHash {
		return ledger.Operation{}, ErrRequestChanged
	}
	giveBack, err := d.gates.of(op.Tenant, action.Spec.Contract).again(op, event)
	if err != nil {
		d.held(action.Spec.Contract.Provider, err)
		return ledger.Operation{}, err
	}
	claimed := time.Now()
	claiming, span := d.spans.Operation(ctx, &op, "claim")
	running, err := d.Ledger.Start(claiming, ledger.Claiming{Operation: op, Event: event, Start: p.Start, RequestHash: p.RequestHash, Actor: actor, Provider: action.Spec.Contract.Provider})
	endSpan(span, err)
	if err != nil {
		giveBack()
		return ledger.Operation{}, err
	}
	d.Changed(running)
	if judged {
		// The claim may have waited for the ledger, and the policy has not: what is
		// in force now, before the first byte, decides.
		if change, err := d.recheck(ctx, op, action, args); err != nil || change != nil {
			return d.settle(ctx, running, action.Spec, judgedAnew(change, err)), nil
		}
	}
	return d.run(ctx, p, running, claimed), nil
}

// codeJudgedAnew is the failure of an attempt that was claimed and not made, since
// the policy has changed. The next attempt asks it again.
const codeJudgedAnew = "policy_changed"

// letGoOn reports whether an operation has not been sent since a reviewer let it go
// on.
func letGoOn(op ledger.Operation) bool {
	return op.LastEvent == ledger.Approve || op.LastEvent == ledger.Release ||
		op.LastEvent == ledger.Defer && op.Failure != nil && op.Failure.Code == codeJudgedAnew
}

// judgedAnew is proof that nothing was sent.
func judgedAnew(change *ledger.Change, err error) actions.Outcome {
	evidence := "0 bytes sent: the policy could not be asked again"
	if err == nil {
		evidence = "0 bytes sent: " + change.Detail
	}
	return actions.Outcome{Kind: actions.NotApplied, Failure: actions.Failure{
		Code: codeJudgedAnew, Message: "Nothing was sent: the policy changed at that moment.", Evidence: evidence,
	}}
}

// errNoRecheck: an approval could not be checked again. Nothing was sent.
var errNoRecheck = errors.New("dispatch: nobody here can check the approval again")

func (d *Dispatcher) recheck(ctx context.Context, op ledger.Operation, action *actions.Action, args actions.Arguments) (*ledger.Change, error) {
	if d.Recheck == nil {
		return nil, errNoRecheck
	}
	return d.Recheck(ctx, op, action, args)
}

// moveInstead moves an operation that may not be sent.
func (d *Dispatcher) moveInstead(ctx context.Context, change *ledger.Change, err error) (ledger.Operation, error) {
	if err != nil {
		return ledger.Operation{}, err
	}
	d.log(change.Operation).Warn("an operation that a reviewer let go on is not sent", "detail", change.Detail)
	moved, err := d.Ledger.Apply(ctx, *change)
	if err != nil {
		return ledger.Operation{}, err
	}
	d.Changed(moved)
	return moved, nil
}

// Reload returns the action and the stored arguments of an operation. It fails
// with ErrNoAdapter, ledger.ErrNotFound (arguments dropped),
// ledger.ErrUnavailable, or when they cannot be opened.
func (d *Dispatcher) Reload(ctx context.Context, op ledger.Operation) (*actions.Action, actions.Arguments, error) {
	action, ok := d.Registry.At(op.ActionType, op.AdapterVersion, op.ContractVersion)
	if !ok {
		return nil, actions.Arguments{}, fmt.Errorf("%w: %s", ErrNoAdapter, op.ActionType)
	}
	args, err := d.StoredArguments(ctx, op)
	return action, args, err
}

// StoredArguments opens the stored arguments of an operation. It fails with
// ledger.ErrNotFound when they were dropped, ledger.ErrUnavailable, or when
// they cannot be opened.
func (d *Dispatcher) StoredArguments(ctx context.Context, op ledger.Operation) (actions.Arguments, error) {
	sealed, err := d.Ledger.Arguments(ctx, op)
	if err != nil {
		return actions.Arguments{}, err
	}
	plain, err := d.Sealer.Unseal(sealed, op.Tenant, op.ID)
	if err != nil {
		return actions.Arguments{}, err
	}
	return actions.ParseArguments(plain)
}

// Call returns what an adapter sees of an operation: for look-ups.
func (d *Dispatcher) Call(op ledger.Operation, args actions.Arguments) actions.Call {
	return actions.Call{
		Tenant: op.Tenant, OperationID: op.ID, Arguments: args,
		ProviderKey: d.keys.of(op.Tenant, op.ID, op.Epoch),
	}
}

// NewID returns a new time-ordered UUID (RFC 9562, version 7).
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Hasten makes the due attempt of a pending operation in the background, if
// there is a place for it. Failing to is no harm: the reconciler makes it.
func (d *Dispatcher) Hasten(op ledger.Operation) {
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		ctx, cancel := context.WithTimeout(d.ctx, settleTimeout)
		defer cancel()
		if _, err := d.Attempt(ctx, op, ledger.Claim, worker); err != nil {
			d.log(op).Info("attempt is left to the reconciler", "error", err)
		}
	}()
}
