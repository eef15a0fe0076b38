package postgres_test

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
)

// holdModel says what counters and intents must hold, from what was asked and
// what became of it. Counters are summed up anew each time. Time is in hours, and
// goes in steps of ten.
type holdModel struct {
	now     int
	ops     []*modelOp
	rates   []modelCharge // are never given back
	holders map[string]*modelHolder
}

type modelOp struct {
	ledger.Operation
	charges []ledger.Charge
	fences  []ledger.Fence
	used    int // when it succeeded
}

type modelCharge struct {
	ledger.Charge
	at int
}

type modelHolder struct {
	id       string
	open     bool
	until    int
	previous *modelHolder
}

// The counters of the model, with their limits. What is used, or asked at a rate,
// counts in a sliding one for between 65 and 67 hours.
var modelCounters = map[string]ledger.Charge{
	"use":   {Kind: ledger.ChargeUse, Limit: "30.00"},
	"slide": {Kind: ledger.ChargeUse, Limit: "20", Window: ledger.Window{Sliding: 65 * time.Hour}},
	"open":  {Kind: ledger.ChargeOpen, Limit: "3"},
	"rate":  {Kind: ledger.ChargeRate, Limit: "9", Window: ledger.Window{Sliding: 65 * time.Hour}},
}

func decimal(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		r = big.NewRat(-1, 1)
	}
	return r
}

// counted is what a counter counts: what open operations hold, however long, and
// what leaves with its window.
func (m *holdModel) counted(counter string) (held, used *big.Rat) {
	held, used = new(big.Rat), new(big.Rat)
	add := func(to *big.Rat, c ledger.Charge) {
		if c.Counter == counter {
			to.Add(to, decimal(c.Amount))
		}
	}
	inWindow := func(c ledger.Charge, at int) bool { return c.Window.Sliding == 0 || m.now-at < 65 }
	for _, c := range m.rates {
		if inWindow(c.Charge, c.at) {
			add(used, c.Charge)
		}
	}
	for _, op := range m.ops {
		for _, c := range op.charges {
			switch {
			case c.Kind == ledger.ChargeRate:
			case !op.State.Final():
				add(held, c)
			case op.State == ledger.Succeeded && c.Kind == ledger.ChargeUse && inWindow(c, op.used):
				add(used, c)
			}
		}
	}
	return held, used
}

// total is all that a counter counts.
func (m *holdModel) total(counter string) *big.Rat {
	held, used := m.counted(counter)
	return used.Add(used, held)
}

func (m *holdModel) closed(h *modelHolder) bool { return h != nil && (h.open || m.now < h.until) }

// refuses says which charge or fence, from 0, cannot be had, and how much is used.
func (m *holdModel) refuses(h ledger.Holds, distinctFrom string) (charge, fence int, used *big.Rat) {
	mine := map[string]*big.Rat{}
	for i, c := range h.Charges {
		used := m.total(c.Counter)
		if before := mine[c.Counter]; before != nil {
			used.Add(used, before)
		}
		with := new(big.Rat).Add(used, decimal(c.Amount))
		if with.Cmp(decimal(c.Limit)) > 0 {
			return i, -1, used
		}
		mine[c.Counter] = with.Sub(with, m.total(c.Counter))
	}
	for i, f := range h.Fences {
		if holder := m.holders[f.Intent]; m.closed(holder) && (holder.open || holder.id != distinctFrom) {
			return -1, i, nil
		}
	}
	return -1, -1, nil
}

// take gives an operation its holds.
func (m *holdModel) take(op *modelOp, h ledger.Holds) {
	op.charges, op.fences = h.Charges, h.Fences
	for _, c := range h.Charges {
		if c.Kind == ledger.ChargeRate {
			m.rates = append(m.rates, modelCharge{c, m.now})
		}
	}
	for _, f := range h.Fences {
		next := &modelHolder{id: op.ID, open: true}
		if before := m.holders[f.Intent]; m.closed(before) {
			next.previous = before
		}
		m.holders[f.Intent] = next
	}
}

// moved follows an operation into another state.
func (m *holdModel) moved(op *modelOp, to ledger.Operation) {
	from := op.State
	op.Operation = to
	if to.State == ledger.Succeeded {
		op.used = m.now
	}
	for _, f := range op.fences {
		h := m.holders[f.Intent]
		mine := h != nil && h.id == op.ID && h.open
		next := mine && h.previous != nil && h.previous.open // who is to have it after this one
		mineNext := !mine && h != nil && h.open && h.previous != nil && h.previous.open && h.previous.id == op.ID
		until := m.now + int(f.Quiet.Hours())
		switch {
		case from == ledger.Failed && !to.State.Final() && (h == nil || !h.open):
			m.holders[f.Intent] = &modelHolder{id: op.ID, open: true, previous: h}
		case from == ledger.Failed && !to.State.Final() && (h.previous == nil || !h.previous.open):
			h.previous = &modelHolder{id: op.ID, open: true}
		case to.State == ledger.Succeeded && !m.closed(h):
			m.holders[f.Intent] = &modelHolder{id: op.ID, until: until}
		case to.State == ledger.Succeeded && next:
			h.previous.previous = &modelHolder{id: op.ID, until: until}
			m.holders[f.Intent] = h.previous
		case to.State == ledger.Succeeded && mine:
			if h.previous != nil {
				until = max(until, h.previous.until)
			}
			m.holders[f.Intent] = &modelHolder{id: op.ID, until: until}
		case to.State == ledger.Succeeded && mineNext:
			h.previous = &modelHolder{id: op.ID, until: until}
		case to.State == ledger.Failed && mine:
			m.holders[f.Intent] = h.previous
		case to.State == ledger.Failed && mineNext:
			h.previous = nil
		}
	}
}

// Whatever is opened, moved, corrected and contradicted in whatever order, the
// ledger's counters and intents are those of the model.
func TestHoldsAreTheModels(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	tenants, conn := 0, db.Owner(t)
	rapid.Check(t, func(rt *rapid.T) {
		tenants++
		r := &modelRun{store: store, conn: conn, tenant: fmt.Sprintf("t%d", tenants), holdModel: holdModel{holders: map[string]*modelHolder{}}}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"open", "open", "move", "move", "move", "correct", "wait"}).Draw(rt, "step") {
			case "open":
				r.open(t, rt)
			case "move":
				r.move(t, rt)
			case "correct":
				r.correct(t, rt)
			case "wait":
				r.now += 10
				if err := ledgertest.AgeHolds(t.Context(), conn, r.tenant, 10*time.Hour); err != nil {
					rt.Fatal(err)
				}
			}
			r.check(t, rt)
		}
	})
}

type modelRun struct {
	holdModel

	store  *postgres.Store
	conn   *pgx.Conn
	tenant string
}

func drawHolds(rt *rapid.T) (h ledger.Holds) {
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"use", "slide", "open", "rate"}), 0, 4, rapid.ID).Draw(rt, "counters") {
		c := modelCounters[name]
		c.Budget, c.Subject, c.Counter, c.Amount = "b", "s", name, "1"
		if c.Kind == ledger.ChargeUse {
			cents := rapid.IntRange(0, 1200).Draw(rt, "cents")
			c.Amount = fmt.Sprintf("%d.%02d", cents/100, cents%100)
		}
		h.Charges = append(h.Charges, c)
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"order 1", "order 2"}), 0, 2, rapid.ID).Draw(rt, "intents") {
		h.Fences = append(h.Fences, ledger.Fence{Intent: name, Quiet: time.Duration(rapid.SampledFrom([]int{0, 15, 35}).Draw(rt, "quiet")) * time.Hour})
	}
	return h
}

func (r *modelRun) open(t *testing.T, rt *rapid.T) {
	o := ledgertest.Opening(r.tenant)
	if rapid.Bool().Draw(rt, "asked") {
		o = ledgertest.Asked(r.tenant)
	}
	o.Holds = drawHolds(rt)
	if len(r.ops) > 0 && rapid.Bool().Draw(rt, "distinct") {
		o.Operation.DistinctFrom = r.ops[rapid.IntRange(0, len(r.ops)-1).Draw(rt, "from")].ID
	}
	if rapid.Bool().Draw(rt, "forget") {
		r.store.ForgetRefusals()
	}
	op, created, err := r.store.Open(t.Context(), o)
	if !r.sameVerdict(rt, o.Holds, o.Operation.DistinctFrom, err) {
		return
	}
	if !created {
		rt.Fatalf("a new key was taken")
	}
	r.ops = append(r.ops, &modelOp{Operation: op})
	r.take(r.ops[len(r.ops)-1], o.Holds)
}

// sameVerdict checks an error against the model, and reports whether there is
// none.
func (r *modelRun) sameVerdict(rt *rapid.T, h ledger.Holds, distinctFrom string, err error) bool {
	charge, fence, used := r.refuses(h, distinctFrom)
	var exhausted *ledger.BudgetExhaustedError
	var held *ledger.IntentHeldError
	switch {
	case charge >= 0:
		if !errors.As(err, &exhausted) || exhausted.Use.Charge != h.Charges[charge] || decimal(exhausted.Use.Used).Cmp(used) != 0 {
			rt.Fatalf("got %v, want %+v refused with %s used", err, h.Charges[charge], used.FloatString(2))
		}
	case fence >= 0:
		want := r.holders[h.Fences[fence].Intent]
		if !errors.As(err, &held) || held.Intent != h.Fences[fence].Intent || held.Holder.ID != want.id || held.QuietUntil.IsZero() != want.open {
			rt.Fatalf("got %v, want %+v refused, held by %+v", err, h.Fences[fence], want)
		}
	case err != nil:
		rt.Fatalf("got %v, want it to have %+v", err, h)
	default:
		return true
	}
	return false
}

func (r *modelRun) move(t *testing.T, rt *rapid.T) {
	movable := slices.DeleteFunc(slices.Clone(r.ops), func(op *modelOp) bool { return op.State == ledger.Succeeded })
	if len(movable) == 0 {
		return
	}
	op := movable[rapid.IntRange(0, len(movable)-1).Draw(rt, "moved")]
	events := map[ledger.State][]ledger.Event{
		ledger.Pending:     {ledger.Claim, ledger.Cancel},
		ledger.Running:     {ledger.Confirm, ledger.Refuse, ledger.Defer, ledger.Doubt},
		ledger.Unknown:     {ledger.Confirm, ledger.Refuse, ledger.Defer, ledger.Escalate},
		ledger.NeedsReview: {ledger.Confirm, ledger.Refuse, ledger.Reject, ledger.Approve},
		ledger.Failed:      {ledger.Contradict},
	}[op.State]
	if op.LastEvent == ledger.Contradict { // its arguments were dropped
		events = events[:3]
	}
	event := rapid.SampledFrom(events).Draw(rt, "event")
	to, err := ledgertest.Move(t.Context(), r.store, op.Operation, event)
	if err != nil {
		rt.Fatalf("%s of a %s operation: %v", event, op.State, err)
	}
	r.moved(op, to)
}

func (r *modelRun) correct(t *testing.T, rt *rapid.T) {
	failed := slices.DeleteFunc(slices.Clone(r.ops), func(op *modelOp) bool { return op.State != ledger.Failed || op.Effect != ledger.EffectNotApplied })
	if len(failed) == 0 {
		return
	}
	op := failed[rapid.IntRange(0, len(failed)-1).Draw(rt, "corrected")]
	o := ledgertest.Opening(r.tenant)
	o.Operation.ArgsHash = ledgertest.Hash(o.Operation.ID)
	o.Holds = drawHolds(rt)
	to, err := r.store.Correct(t.Context(), op.Operation, o)
	if r.sameVerdict(rt, o.Holds, "", err) {
		op.Operation = to
		r.take(op, o.Holds)
	}
}

// check compares the ledger with the model.
func (r *modelRun) check(t *testing.T, rt *rapid.T) {
	var charges []ledger.Charge
	for counter, c := range modelCounters {
		c.Budget, c.Counter, c.Amount = "b", counter, "2.50"
		charges = append(charges, c)
	}
	uses, err := r.store.BudgetUse(t.Context(), r.tenant, charges, "")
	if err != nil {
		rt.Fatal(err)
	}
	for _, use := range uses {
		want, room := r.total(use.Counter), new(big.Rat).Sub(decimal(use.Limit), decimal(use.Amount))
		if decimal(use.Used).Cmp(want) != 0 {
			rt.Fatalf("%s counts %s, want %s", use.Counter, use.Used, want.FloatString(2))
		}
		held, _ := r.counted(use.Counter)
		if leaves := use.Window.Sliding > 0 && want.Cmp(room) > 0 && held.Cmp(room) <= 0; use.FreeAt.IsZero() == leaves {
			rt.Fatalf("%s is free at %v, want a time %v: %s of %s are held", use.Counter, use.FreeAt, leaves, held.FloatString(2), want.FloatString(2))
		}
	}
	for _, intent := range []string{"order 1", "order 2"} {
		held, err := r.store.IntentHolder(t.Context(), r.tenant, []ledger.Fence{{Intent: intent}}, "")
		want := r.holders[intent]
		switch {
		case err != nil:
			rt.Fatal(err)
		case r.closed(want) != (held != nil), held != nil && (held.Holder.ID != want.id || held.QuietUntil.IsZero() != want.open):
			rt.Fatalf("%s is held by %+v, want %+v", intent, held, want)
		}
	}
}
