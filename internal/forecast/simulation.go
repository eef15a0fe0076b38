package forecast

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/onceward/onceward/ledger"
)

// Options say what is assumed and shown.
type Options struct {
	From, To time.Time // the span of the observations
	// OperationTime is how long an operation is taken to be open; default 5 s.
	// It decides about budgets of open operations and about intents.
	OperationTime time.Duration
	Examples      int // of each kind and action type; none by default
}

// defaultOperationTime is what a provider's slow answers take.
const defaultOperationTime = 5 * time.Second

// Simulation replays observations of one tenant. It holds in memory the keys of
// the span, 50 bytes each, and the counters that they are charged to. It is not
// safe for concurrent use.
type Simulation struct {
	options  Options
	tenant   string
	first    time.Time // observation
	keys     map[keyHash]keyState
	counters map[string]*counter
	intents  map[string]closed
	zones    map[string]*time.Location
	sums     map[string]*sum
}

// keyHash is the head of a key's SHA-256: enough to tell keys apart.
type keyHash [16]byte

// keyState is what became of the first request with a key.
type keyState struct {
	declined bool   // by a budget or an intent: the key stays free
	action   uint64 // heads of hashes of the action type and arguments that took it
}

// closed says until when an intent is fenced.
type closed struct {
	open, quiet time.Time
	holder      string // observation id
}

// sum is what came of the requests of one action type.
type sum struct {
	ActionType

	rules, budgets map[string]int64
	money          map[string]*moneySum
	examples       [][]Example // by kind, in the order in which kinds came
	kinds          map[string]int
}

type moneySum struct{ sent, duplicates, refused big.Rat }

// What would have happened, in examples.
const (
	exampleDuplicate   = "duplicate"
	exampleMismatch    = "mismatch"
	exampleInvalid     = "invalid"
	exampleRule        = "refused by rule"
	exampleBudget      = "refused by budget"
	exampleIntentOpen  = "refused: intent open"
	exampleIntentQuiet = "refused: intent quiet"
	exampleApproval    = "approval"
)

// New makes a simulation of a tenant's requests.
func New(tenant string, o Options) *Simulation {
	if o.OperationTime <= 0 {
		o.OperationTime = defaultOperationTime
	}
	return &Simulation{
		options: o, tenant: tenant, keys: map[keyHash]keyState{}, counters: map[string]*counter{},
		intents: map[string]closed{}, zones: map[string]*time.Location{}, sums: map[string]*sum{},
	}
}

// Add replays a request. They must come in the order of time. It fails where an
// observation holds what no policy yields, such as an amount that is no number.
func (s *Simulation) Add(o ledger.Observed) error {
	if s.first.IsZero() {
		s.first = o.At
	}
	t := s.sums[o.ActionType]
	if t == nil {
		t = &sum{rules: map[string]int64{}, budgets: map[string]int64{}, money: map[string]*moneySum{}, kinds: map[string]int{}}
		s.sums[o.ActionType] = t
	}
	spent, err := spending(o)
	if err != nil {
		return err
	}
	money := t.moneyIn(o.Currency)
	t.Requests++
	switch s.known(o) {
	case ledger.ObservedInvalid:
		t.Invalid++
		s.example(t, exampleInvalid, o, o.Verdict.Reason)
	case ledger.ObservedRefused:
		t.rules[o.Verdict.Rule]++
		money.refused.Add(&money.refused, spent)
		s.example(t, exampleRule, o, o.Verdict.Rule)
	case ledger.ObservedDuplicate:
		t.Duplicates++
		money.duplicates.Add(&money.duplicates, spent)
		s.example(t, exampleDuplicate, o, "")
	case ledger.ObservedMismatch:
		t.Mismatches++
		s.example(t, exampleMismatch, o, "")
	default:
		admitted, err := s.open(t, o)
		if err != nil {
			return err
		}
		into := &money.refused
		if admitted {
			into = &money.sent
		}
		into.Add(into, spent)
		s.keys[headOf(o.Key)] = keyState{declined: !admitted, action: identity(o)}
	}
	return nil
}

// known is what is done with a request before it could be recorded: a new one is
// ObservedExecute. The ledger compared keys as if nothing had been refused; here
// a key whose first request was refused is free.
func (s *Simulation) known(o ledger.Observed) ledger.ObservedOutcome {
	if o.Outcome == ledger.ObservedInvalid || o.Outcome == ledger.ObservedRefused {
		return o.Outcome
	}
	state, seen := s.keys[headOf(o.Key)]
	switch {
	case seen && state.declined:
		return ledger.ObservedExecute
	case seen && state.action == identity(o):
		return ledger.ObservedDuplicate
	case seen:
		return ledger.ObservedMismatch
	case o.Outcome == ledger.ObservedRequireApproval:
		return ledger.ObservedExecute
	default: // the first with a key that was seen before the span is no first one
		return o.Outcome
	}
}

// open takes what a new request would have been charged to, and closes its
// intents, all or nothing.
func (s *Simulation) open(t *sum, o ledger.Observed) (admitted bool, err error) {
	amounts := make([]*big.Rat, len(o.Charges))
	for i, c := range o.Charges {
		amount, limit, err := charged(o, c)
		if err != nil {
			return false, err
		}
		used, err := s.used(c, o.At)
		if err != nil {
			return false, fmt.Errorf("observation %s: %w", o.ID, err)
		}
		if sum := new(big.Rat).Add(used, amount); sum.Cmp(limit) > 0 {
			t.budgets[c.Budget]++
			s.example(t, exampleBudget, o, fmt.Sprintf("%s of %s: %s of %s were used, %s wanted", c.Budget, c.Subject, decimal(used), decimal(limit), decimal(amount)))
			return false, nil
		}
		amounts[i] = amount
	}
	for _, f := range o.Fences {
		fence := s.intents[f.Intent]
		switch {
		case o.At.Before(fence.open):
			t.IntentOpen++
			s.example(t, exampleIntentOpen, o, f.Intent+" is held by "+fence.holder)
			return false, nil
		case o.At.Before(fence.quiet):
			t.IntentQuiet++
			s.example(t, exampleIntentQuiet, o, f.Intent+" was held by "+fence.holder)
			return false, nil
		}
	}
	ends := o.At.Add(s.options.OperationTime)
	for i, c := range o.Charges {
		s.charge(c, o.At, ends, amounts[i])
	}
	for _, f := range o.Fences {
		s.intents[f.Intent] = closed{open: ends, quiet: ends.Add(f.Quiet), holder: o.ID}
	}
	if o.Verdict.Decision == string(ledger.ObservedRequireApproval) {
		t.Approvals++
		s.example(t, exampleApproval, o, o.Verdict.Rule)
	} else {
		t.Sent++
	}
	return true, nil
}

// example keeps a request as an example, unless there are enough of its kind.
func (s *Simulation) example(t *sum, what string, o ledger.Observed, detail string) {
	i, ok := t.kinds[what]
	if !ok {
		i = len(t.examples)
		t.kinds[what] = i
		t.examples = append(t.examples, nil)
	}
	if len(t.examples[i]) < s.options.Examples {
		t.examples[i] = append(t.examples[i], Example{What: what, ObservationID: o.ID, At: o.At, RunID: o.Run.RunID, StepID: o.Run.StepID, Detail: detail})
	}
}

// moneyIn is the sum in a currency; a throw-away one where there is none.
func (t *sum) moneyIn(currency string) *moneySum {
	if currency == "" {
		return &moneySum{}
	}
	if t.money[currency] == nil {
		t.money[currency] = &moneySum{}
	}
	return t.money[currency]
}

// spending is what a request would have spent.
func spending(o ledger.Observed) (*big.Rat, error) {
	if o.Amount == "" {
		return new(big.Rat), nil
	}
	return number(o, "amount", o.Amount)
}

func charged(o ledger.Observed, c ledger.Charge) (amount, limit *big.Rat, err error) {
	if amount, err = number(o, "amount of budget "+c.Budget, c.Amount); err != nil {
		return nil, nil, err
	}
	limit, err = number(o, "limit of budget "+c.Budget, c.Limit)
	return amount, limit, err
}

// number reads an exact decimal. An exponent could make it huge.
func number(o ledger.Observed, what, text string) (*big.Rat, error) {
	n, ok := new(big.Rat).SetString(text)
	if strings.ContainsAny(text, "eEpPxX/_") || !ok || n.Sign() < 0 {
		return nil, fmt.Errorf("observation %s: %s: %q is no exact decimal", o.ID, what, text)
	}
	return n, nil
}

func headOf(text string) keyHash {
	hash := sha256.Sum256([]byte(text))
	return keyHash(hash[:len(keyHash{})])
}

// identity is the head of a hash over what a key stands for.
func identity(o ledger.Observed) uint64 {
	hash := sha256.Sum256(append([]byte(o.ActionType+"\x00"), o.ArgsHash[:]...))
	var head uint64
	for _, b := range hash[:8] {
		head = head<<8 | uint64(b)
	}
	return head
}
