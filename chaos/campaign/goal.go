package campaign

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/fakeprovider"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// The action types of the demo adapters.
const (
	refunds  = "payments.refund.create"
	invoices = "email.invoice.send"
	contacts = "crm.contact.create"
	notes    = "notes.insert"
)

// The tenants: one with a policy that has everything, one that may do everything, and
// one whose doubts go to a person at once.
const (
	acme    = "acme"
	globex  = "globex"
	initech = "initech"
)

func tenants() []string { return []string{acme, globex, initech} }

// goal is one thing that callers want done, once.
type goal struct {
	number int
	tenant string
	action string
	name   string // in the run id, and in the body that the provider sees
	cents  int
	key    string // of the caller's; empty: composed by the recipe or of run and step
	intent string
	wrong  bool // the provider refuses the arguments that it is first asked with
	faults []fakeprovider.Fault
}

// Streams of random numbers that a seed gives: one for each goal, one for each
// caller, one for the faults.
const (
	streamGoals   = 1 << 56
	streamCallers = 2 << 56
	streamFaults  = 3 << 56
)

func stream(seed, of uint64, number int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, of|uint64(number))) //nolint:gosec // a schedule that can be repeated, not a secret
}

// goalOf is the goal of a number: the seed alone decides what it is, and what the
// provider does about it.
func goalOf(seed uint64, number int, kinds []fakeprovider.Kind) goal {
	r := stream(seed, streamGoals, number)
	g := goal{number: number, name: fmt.Sprintf("g%d", number), cents: 100 + r.IntN(3000)}
	g.tenant = weighed(r, []string{acme, globex, initech}, 6, 3, 1)
	g.action = weighed(r, []string{refunds, invoices, contacts, notes}, 9, 5, 3, 3)
	if r.IntN(20) == 0 {
		g.cents += 4000 // above what acme allows without a person
	}
	// The recipes of invoices and contacts leave out what callers change here, but for
	// the amounts: with a composed key other arguments are another action there.
	if g.action == invoices || r.IntN(3) > 0 {
		g.key = "key-" + g.name
	}
	if g.action == refunds && r.IntN(10) == 0 {
		g.intent = fmt.Sprintf("order-%d", number/3)
	}
	g.wrong = (g.action == refunds || g.action == invoices) && r.IntN(25) == 0
	// A refusal that is dressed up as a success is a lie that no contract allows: what is
	// refused is left alone.
	if len(kinds) > 0 && g.action != notes && !g.wrong && r.IntN(2) == 0 {
		for range 1 + r.IntN(3) {
			g.faults = append(g.faults, faultOf(r, kinds[r.IntN(len(kinds))]))
		}
	}
	return g
}

// faultOf is a fault of a kind with what it needs.
func faultOf(r *rand.Rand, kind fakeprovider.Kind) fakeprovider.Fault {
	f := fakeprovider.Fault{Kind: kind, Reset: r.IntN(2) == 0}
	switch kind {
	case fakeprovider.Delay, fakeprovider.DelayAfterApplying:
		f.Delay = time.Duration(r.Int64N(int64(providerDelay))) + time.Millisecond
	case fakeprovider.NeverAnswer, fakeprovider.HTML502:
		f.Apply = r.IntN(2) == 0
	case fakeprovider.Redirect:
		// 307 says that the request was not processed: who has applied it does not say so.
		if f.Apply = r.IntN(2) == 0; f.Apply {
			f.Status = []int{302, 303}[r.IntN(2)]
		}
	case fakeprovider.RateLimited:
		f.RetryAfter = time.Second
	case fakeprovider.ErrorAfterApplying, fakeprovider.ErrorBeforeApplying:
		f.Status = []int{500, 502, 503, 504}[r.IntN(4)]
	case fakeprovider.Accepted202:
		f.SettleAfter = time.Duration(r.Int64N(int64(time.Second)))
	case fakeprovider.HugeAnswer:
		f.Size = 200_000
	default:
	}
	if r.IntN(12) == 0 {
		f.LookupLag = time.Duration(r.Int64N(int64(searchLag)))
	}
	if r.IntN(40) == 0 {
		f.DuplicateLookup = true
	}
	return f
}

// needle is what a provider's request about the goal has in its body, and no other
// one.
func (g goal) needle() string {
	switch g.action {
	case refunds:
		return `"` + g.charge(0) + `"`
	case invoices:
		return `"inv_` + g.name + `"`
	default:
		return `"` + g.email() + `"`
	}
}

func (g goal) charge(arguments int) string {
	if g.wrong && arguments != corrected {
		return "ch_missing_" + g.name
	}
	return "ch_" + g.name
}

func (g goal) email() string { return g.name + "@" + g.tenant + ".test" }

// Sets of arguments of a goal: its own, others under the same key, and those that
// correct ones that the provider refused.
const (
	own       = 0
	other     = 1
	corrected = 2
)

// arguments are a set of arguments in JSON. What is advisory differs from word to
// word, as models have it.
func (g goal) arguments(set int, words int) string {
	cents := g.cents
	if set == other {
		cents++
	}
	switch g.action {
	case refunds:
		return fmt.Sprintf(`{"charge_id":%q,"amount":%d,"currency":"usd","reason":"words %d"}`, g.charge(set), cents, words)
	case invoices:
		to := g.email()
		if g.wrong && set != corrected {
			to = g.name + "@invalid.test"
		}
		revision := 1
		if set == other {
			revision = 2
		}
		return fmt.Sprintf(`{"to":%q,"invoice_id":%q,"revision":%d}`, to, "inv_"+g.name, revision)
	case contacts:
		return fmt.Sprintf(`{"email":%q,"name":"Li %d"}`, g.email(), cents)
	default:
		return fmt.Sprintf(`{"subject":%q,"body":"%d"}`, g.name, cents)
	}
}

// asked is the money that a set of arguments asks for; zero where none moves.
func (g goal) asked(set int) int64 {
	switch {
	case g.action != refunds:
		return 0
	case set == other:
		return int64(g.cents) + 1
	default:
		return int64(g.cents)
	}
}

// request asks for the goal.
func (g goal) request(set, words int) *oncewardv1.RequestActionRequest {
	return &oncewardv1.RequestActionRequest{
		ActionType:     g.action,
		ArgumentsForm:  &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: g.arguments(set, words)},
		IdempotencyKey: g.key,
		IntentId:       g.intent,
		Run:            &oncewardv1.RunContext{RunId: g.name, StepId: "step", Agent: "chaos"},
		Wait:           durationpb.New(callWait),
	}
}

// weighed picks a value; weights say how often each comes.
func weighed[T any](r *rand.Rand, values []T, weights ...int) T {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := r.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return values[i]
		}
	}
	return values[len(values)-1]
}
