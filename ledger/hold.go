package ledger

import (
	"errors"
	"fmt"
	"time"
)

// Holds are what an operation takes besides its key: parts of budgets, and the
// fences of intents. They are taken in the transaction that records it, or it is
// not recorded. They are held while it is open, however long that is (L8), in
// whatever window time has come to, and given back only by its end:
//
//   - when it failed, which is proof that nothing was applied, all of them;
//   - when it succeeded, what counts while it is open; what it used counts from
//     then on in the window of that moment, and a fence stays closed for its quiet
//     time.
//
// A failed operation that is corrected takes them anew, or is not corrected. One
// that turns out to have an effect after all takes them back, whatever is left
// of the budget.
type Holds struct {
	Charges []Charge
	Fences  []Fence
}

// Empty reports whether nothing is held.
func (h Holds) Empty() bool { return len(h.Charges) == 0 && len(h.Fences) == 0 }

// ChargeKind says when a charge is given back.
type ChargeKind string

// The kinds of charges.
const (
	ChargeUse  ChargeKind = "use"  // what is spent, or counted: given back on proof that nothing was applied, and otherwise by its window, which begins with the success
	ChargeOpen ChargeKind = "open" // operations that are open at once: given back by any end
	ChargeRate ChargeKind = "rate" // requests in a short time: given back only by the window in which the request was recorded
)

// Charge is one part of a budget.
type Charge struct {
	Budget  string // its id in the policy, for people: at most 64 bytes
	Subject string // whose part it is, for people: "actor:planner-7"; at most 300 bytes
	// Counter is where it is counted, unique within the tenant, at most 400
	// bytes. It says the budget, the subject, the currency and the kind of
	// window, so that a budget that is changed begins to count anew.
	Counter string
	Kind    ChargeKind
	Amount  string // exact decimal, not negative: at most 20 digits before the point and 12 after it
	Limit   string // the same: what the counter may hold in its window
	Window  Window
}

// Window is the time for which a counter counts what is used: from the success of
// the operation on (or, of a rate, from its recording), by the database's clock.
// What an operation holds while it is open counts in every window, or one that
// waits past the end of a window would then spend the money of the past one in the
// present one. The zero value is for ever (for what ends by itself, such as a run,
// or what is given back, such as open operations). At most one of Unit and Sliding
// is set.
type Window struct {
	// Unit is "minute", "hour", "day", "week" (from Monday) or "month" of the
	// calendar in Zone.
	Unit string
	Zone string // IANA name; empty is UTC
	// Sliding is the last so long: at no instant does it hold more than the limit.
	// It counts in sixty steps, and what is used is free again up to one step
	// later than it could be. At least a second, at most 400 days.
	Sliding time.Duration
}

// Fence closes an intent while an operation is open under it.
type Fence struct {
	Intent string        // composed of its name and its parts, at most 400 bytes
	Quiet  time.Duration // after a success it stays closed that long for operations that are not DistinctFrom it
}

// BudgetUse is a counter as it is now.
type BudgetUse struct {
	Charge

	Used   string    // reserved and spent, exact
	FreeAt time.Time // when the wanted amount fits again if nothing else is charged or given back; zero: not known, as of what open operations hold
}

// BudgetExhaustedError says that a charge does not fit. Nothing was recorded.
type BudgetExhaustedError struct {
	Use BudgetUse
}

func (e *BudgetExhaustedError) Error() string {
	return fmt.Sprintf("ledger: budget %s of %s: %s of %s are used, %s wanted", e.Use.Budget, e.Use.Subject, e.Use.Used, e.Use.Limit, e.Use.Amount)
}

// IntentHeldError says that another operation holds an intent. Nothing was
// recorded.
type IntentHeldError struct {
	Intent string
	Holder Operation
	// QuietUntil is set where the holder has succeeded: until then the request
	// must say that it is distinct from it.
	QuietUntil time.Time
}

func (e *IntentHeldError) Error() string {
	return fmt.Sprintf("ledger: intent %s is held by operation %s (%s)", e.Intent, e.Holder.ID, e.Holder.State)
}

// StoppedError says that a kill switch is set. Nothing was recorded or claimed.
type StoppedError struct {
	Switch KillSwitch
}

func (e *StoppedError) Error() string { return "ledger: stopped by a kill switch: " + e.Switch.Reason }

// KillSwitch stops claims: all of a tenant, or those of an action type or a
// provider. Tenant AllTenants is for the whole installation.
type KillSwitch struct {
	Tenant     string
	ActionType string // at most one of these two is set; neither: everything
	Provider   string
	Reason     string
	SetBy      string
	SetAt      time.Time
}

// AllTenants is the tenant of what holds for the whole installation.
const AllTenants = "*"

// ErrAlreadyVoted: this reviewer approved before; nothing was changed.
var ErrAlreadyVoted = errors.New("ledger: approved before by the same reviewer")
