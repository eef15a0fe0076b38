package server

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Statistics is what the server needs of the store to count. Both methods fail
// with ledger.ErrNoStatistics on a schema that is older.
type Statistics interface {
	// AddTallies adds a batch (a UUID) once, however often it is added.
	AddTallies(ctx context.Context, batch string, tallies []ledger.Tally) error
	// Tallies sums up from one full hour until before another.
	Tallies(ctx context.Context, tenant string, from, to time.Time, actionType string) ([]ledger.Tally, error)
}

const (
	// defaultSpan is what is summed up where no start is given.
	defaultSpan = 24 * time.Hour
	// maxSpan is the longest span: older tallies are swept.
	maxSpan = 400 * 24 * time.Hour
)

// GetStats sums up what was done with the tenant's requests.
func (s *Server) GetStats(ctx context.Context, req *oncewardv1.GetStatsRequest) (*oncewardv1.GetStatsResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Reviewer, policy.Auditor, policy.Admin); err != nil {
		return nil, err
	}
	from, to, err := spanOf(req, time.Now())
	if err != nil {
		return nil, err
	}
	if v, ok := checkName("action_type", req.GetActionType()); !ok {
		return nil, invalid(v)
	}
	tallies, err := s.Ledger.Tallies(ctx, p.Tenant, from, to, req.GetActionType())
	if err != nil {
		return nil, err
	}
	resp := sumUp(tallies)
	resp.From, resp.To = timestamppb.New(from), timestamppb.New(to)
	return resp, nil
}

// spanOf is the span of a request, in full hours.
func spanOf(req *oncewardv1.GetStatsRequest, now time.Time) (from, to time.Time, err error) {
	from, to = now.Add(-defaultSpan), now
	for _, given := range []struct {
		field string
		time  *timestamppb.Timestamp
		into  *time.Time
	}{{"from", req.GetFrom(), &from}, {"to", req.GetTo(), &to}} {
		if given.time == nil {
			continue
		}
		if err := given.time.CheckValid(); err != nil {
			return time.Time{}, time.Time{}, invalid(actions.Violation{Field: given.field, Reason: actions.ReasonRange, Message: "is no time"})
		}
		*given.into = given.time.AsTime()
	}
	if req.GetFrom() == nil && req.GetTo() != nil {
		from = to.Add(-defaultSpan)
	}
	from, to = from.UTC().Truncate(time.Hour), to.UTC().Add(time.Hour-1).Truncate(time.Hour)
	switch {
	case !from.Before(to):
		err = invalid(actions.Violation{Field: "from", Reason: actions.ReasonRange, Message: "is not before to"})
	case to.Sub(from) > maxSpan+time.Hour: // which rounding adds
		err = invalid(actions.Violation{Field: "from", Reason: actions.ReasonRange, Message: "is more than 400 days before to; statistics are kept that long"})
	}
	return from, to, err
}

// counter adds up tallies of one kind.
type counter struct {
	executed, duplicates, refused int64
	money                         map[string]*big.Rat // by currency
}

func (c *counter) add(t ledger.Tally) {
	switch t.What {
	case tallyExecuted:
		c.executed += t.Count
	case tallyDuplicate:
		c.duplicates += t.Count
		amount, ok := new(big.Rat).SetString(t.Amount)
		if !ok || amount.Sign() == 0 || t.Currency == "" {
			return
		}
		if c.money == nil {
			c.money = map[string]*big.Rat{}
		}
		if sum := c.money[t.Currency]; sum != nil {
			amount.Add(amount, sum)
		}
		c.money[t.Currency] = amount
	case tallyRefused:
		c.refused += t.Count
	}
}

func (c *counter) counts() *oncewardv1.Counts {
	out := &oncewardv1.Counts{
		Tracked: c.executed + c.duplicates, Executed: c.executed, DuplicatesPrevented: c.duplicates, Refused: c.refused,
	}
	if out.GetTracked() > 0 {
		out.DuplicateRate = float64(c.duplicates) / float64(out.GetTracked())
	}
	for currency, amount := range c.money {
		out.Prevented = append(out.Prevented, &oncewardv1.Money{Amount: decimal(amount), Currency: currency})
	}
	slices.SortFunc(out.Prevented, func(a, b *oncewardv1.Money) int { return cmp.Compare(a.GetCurrency(), b.GetCurrency()) })
	return out
}

// sumUp puts tallies together: all, by action type, and duplicates by cause.
func sumUp(tallies []ledger.Tally) *oncewardv1.GetStatsResponse {
	var total counter
	types, causes := map[string]*counter{}, map[oncewardv1.RetryCause]*oncewardv1.CauseCounts{}
	for _, t := range tallies {
		total.add(t)
		if types[t.ActionType] == nil {
			types[t.ActionType] = &counter{}
		}
		types[t.ActionType].add(t)
		if t.What != tallyDuplicate {
			continue
		}
		cause := causeNamed(t.Cause)
		if causes[cause] == nil {
			causes[cause] = &oncewardv1.CauseCounts{Cause: cause}
		}
		causes[cause].Duplicates += t.Count
		if t.Stated {
			causes[cause].Stated += t.Count
		}
	}
	resp := &oncewardv1.GetStatsResponse{Total: total.counts()}
	for name, c := range types {
		resp.ByActionType = append(resp.ByActionType, &oncewardv1.ActionTypeCounts{ActionType: name, Counts: c.counts()})
	}
	slices.SortFunc(resp.ByActionType, func(a, b *oncewardv1.ActionTypeCounts) int {
		return cmp.Or(cmp.Compare(b.GetCounts().GetDuplicatesPrevented(), a.GetCounts().GetDuplicatesPrevented()), cmp.Compare(a.GetActionType(), b.GetActionType()))
	})
	for _, c := range causes {
		resp.ByCause = append(resp.ByCause, c)
	}
	slices.SortFunc(resp.ByCause, func(a, b *oncewardv1.CauseCounts) int {
		return cmp.Or(cmp.Compare(b.GetDuplicates(), a.GetDuplicates()), cmp.Compare(a.GetCause(), b.GetCause()))
	})
	return resp
}
