package proof

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/ledger"
)

// lookupPaths: the answer is lost, and whether the effect exists must be looked
// up. Where the provider honours keys its window has ended, so that a look-up is
// all there is.
func lookupPaths() []*path {
	return []*path{
		{name: "lookup-lags", title: "the look-up does not show it yet", prepare: looksUp(prepareLag)},
		{name: "lookup-two", title: "the look-up finds two", want: notTaken, prepare: looksUp(func(s *stage) error {
			if s.UniqueLookup != "" {
				return errors.New(s.UniqueLookup)
			}
			return s.target.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, DuplicateLookup: true})
		})},
		{name: "lookup-errors", title: "the look-up fails: an error, a gateway's page, no answer", prepare: looksUp(lostThen(
			kind(fakeprovider.ErrorBeforeApplying), kind(fakeprovider.HTML502), kind(fakeprovider.DropBeforeReading)))},
		{name: "lookup-garbled", title: "the look-up's answer is cut, empty, no JSON", prepare: looksUp(lostThen(
			kind(fakeprovider.TruncateAnswer), kind(fakeprovider.Empty201), kind(fakeprovider.MalformedJSON201)))},
		{name: "lookup-limited", title: "the look-up is rate limited", prepare: looksUp(lostThen(
			kind(fakeprovider.RateLimited), kind(fakeprovider.RateLimited)))},
		{name: "lookup-down", title: "every look-up fails", endless: true, prepare: looksUp(lostThen(
			fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying, Times: -1}))},
		{name: "lookup-gateway", title: "every look-up is answered by a gateway", endless: true, prepare: looksUp(lostThen(
			fakeprovider.Fault{Kind: fakeprovider.HTML502, Times: -1}))},
		{name: "horizon-passed", title: "the key's window ends before the doubt is resolved", prepare: prepareHorizon},
	}
}

// looksUp prepares a path on which only a look-up can tell.
func looksUp(prepare func(*stage) error) func(*stage) error {
	return func(s *stage) error {
		if !s.looks {
			return errors.New("the adapter has no look-up: doubt is not looked up")
		}
		s.horizonPassed = s.honoured()
		return prepare(s)
	}
}

// prepareLag hides the effect from the first look, and from no later one. A first
// look that comes late finds it: the contract's settle time is kept.
func prepareLag(s *stage) error {
	lost := fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, LookupLag: hiddenLag}
	if s.spec.Contract.Lookup.SettleTime == 0 {
		lost.LookupLag = longLag // it says that it never lags
		return s.target.Next(lost)
	}
	var ended atomic.Value // time.Time
	var shown sync.Once
	show := func() (err error) {
		shown.Do(func() { err = s.target.Advance(hiddenLag) })
		return err
	}
	s.after = func(context.Context, int) error { ended.Store(time.Now()); return nil }
	s.beforeLook = func() error {
		if at, ok := ended.Load().(time.Time); ok && time.Since(at) < shownLag {
			return nil
		}
		return show()
	}
	s.afterLook = show
	return s.target.Next(lost)
}

// lostThen loses the answer of the write and gives the look-ups faults.
func lostThen(faults ...fakeprovider.Fault) func(*stage) error {
	return func(s *stage) error {
		if err := s.target.Next(kind(fakeprovider.DropAnswerAfterApplying)); err != nil {
			return err
		}
		return s.target.NextLookup(faults...)
	}
}

// notTaken: of two objects neither may be taken for the effect.
func notTaken(_ *stage, e evidence) judgement {
	if e.op.State == ledger.Succeeded {
		return verdictf(Lie, "the look-up showed two objects, and one was taken for the effect: ask for as many as there are, and report several; where it cannot show two, say so")
	}
	return judgement{verdict: Safe}
}

// prepareHorizon lets the provider forget the key before anybody can send it
// again: a second write would be a second effect.
func prepareHorizon(s *stage) error {
	keys := s.spec.Contract.Keys
	if !keys.Honoured {
		return errors.New("the provider honours no keys: there is no window to end")
	}
	s.horizonPassed = true
	s.after = func(_ context.Context, n int) error {
		if n > 1 {
			return nil
		}
		return s.target.Advance(keys.Window + keys.Margin + time.Hour)
	}
	return s.target.Next(kind(fakeprovider.DropAnswerAfterApplying))
}
