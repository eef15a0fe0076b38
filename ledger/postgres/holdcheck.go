package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/onceward/onceward/ledger"
)

// errBadHolds: what an opening is to hold makes no sense. Nothing was sent.
var errBadHolds = errors.New("ledger: bad holds")

// The limits of ledger.Charge, ledger.Window and ledger.Fence.
const (
	maxCounterBytes = 400
	maxIntentBytes  = 400
	minSliding      = time.Second
	maxSliding      = 400 * 24 * time.Hour
	maxQuiet        = 400 * 24 * time.Hour
)

var (
	exactDecimal  = regexp.MustCompile(`^[0-9]{1,20}(\.[0-9]{1,12})?$`)
	calendarUnits = []string{"minute", "hour", "day", "week", "month"}
)

// checkHolds refuses holds that the ledger could count wrongly: amounts that are
// no exact decimals, windows that it does not know, one intent twice. A zone that
// the database does not know it refuses itself.
func checkHolds(h ledger.Holds) error {
	for _, c := range h.Charges {
		if problem := chargeProblem(c); problem != "" {
			return fmt.Errorf("%w: charge of budget %q: %s", errBadHolds, c.Budget, problem)
		}
	}
	for i, f := range h.Fences {
		switch {
		case f.Intent == "" || len(f.Intent) > maxIntentBytes:
			return fmt.Errorf("%w: an intent has 1 to %d bytes, this one %d", errBadHolds, maxIntentBytes, len(f.Intent))
		case f.Quiet < 0 || f.Quiet > maxQuiet:
			return fmt.Errorf("%w: intent %q: the quiet time is 0 to 400 days, not %s", errBadHolds, f.Intent, f.Quiet)
		case slices.ContainsFunc(h.Fences[:i], func(other ledger.Fence) bool { return other.Intent == f.Intent }):
			return fmt.Errorf("%w: intent %q twice", errBadHolds, f.Intent)
		}
	}
	return nil
}

func chargeProblem(c ledger.Charge) string {
	w := c.Window
	switch {
	case c.Counter == "" || len(c.Counter) > maxCounterBytes:
		return fmt.Sprintf("a counter has 1 to %d bytes, this one %d", maxCounterBytes, len(c.Counter))
	case c.Kind != ledger.ChargeUse && c.Kind != ledger.ChargeOpen && c.Kind != ledger.ChargeRate:
		return fmt.Sprintf("kind %q: want use, open or rate", c.Kind)
	case !exactDecimal.MatchString(c.Amount):
		return fmt.Sprintf("amount %.40q: want an exact decimal, not negative, of at most 20 digits and 12 after the point", c.Amount)
	case !exactDecimal.MatchString(c.Limit):
		return fmt.Sprintf("limit %.40q: want an exact decimal, not negative, of at most 20 digits and 12 after the point", c.Limit)
	case w.Unit != "" && w.Sliding != 0:
		return "a window is of the calendar or slides, not both"
	case w.Unit != "" && !slices.Contains(calendarUnits, w.Unit):
		return fmt.Sprintf("window of a %q: want minute, hour, day, week or month", w.Unit)
	case w.Sliding != 0 && (w.Sliding < minSliding || w.Sliding > maxSliding):
		return fmt.Sprintf("a sliding window has a second to 400 days, not %s", w.Sliding)
	}
	return ""
}
