package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/ledger"
)

// path is one ugly path: what is prepared, how it is walked, and what more is
// wanted of its end than that nobody was lied to.
type path struct {
	name, title string
	// prepare scripts the target. It fails with what makes the path not
	// applicable.
	prepare func(*stage) error
	// play walks the path; nil requests the action and waits for its end.
	play func(context.Context, *stage, *client) (judgement, error)
	// want says what is wrong with the end of a path that is safe otherwise.
	want func(*stage, evidence) judgement
	// endless: the last fault repeats for ever, so that it is always left.
	endless bool
	// static paths look at the adapter alone: nothing is run.
	static func(*sample) judgement
}

// PathInfo names a path.
type PathInfo struct {
	Name  string `json:"name"` // lower-case words with hyphens
	Title string `json:"title"`
}

// Paths lists the paths that every subject has, in the order in which they are
// reported. A subject's own ([Subject.Answers]) come after them.
func Paths() []PathInfo {
	var out []PathInfo
	for _, p := range paths() {
		out = append(out, PathInfo{p.name, p.title})
	}
	return out
}

func paths() []*path {
	var all []*path
	for _, group := range [][]*path{
		plainPaths(), answerPaths(), slowPaths(), refusalPaths(), lookupPaths(), processPaths(),
	} {
		all = append(all, group...)
	}
	return all
}

// wrongContentType is a fault that not every target knows; one that does not
// refuses it, and the path says so.
const wrongContentType = fakeprovider.Kind("wrong_content_type")

// AnswerPrefix begins the names of paths that are a subject's own.
const AnswerPrefix = "answer-"

// paths are all paths of a subject.
func (s *sample) paths() []*path {
	all := paths()
	for _, a := range s.Answers {
		all = append(all, &path{name: AnswerPrefix + a.Name, title: a.Title, prepare: writes(a.Fault)})
	}
	return all
}

// writes scripts faults for writes.
func writes(faults ...fakeprovider.Fault) func(*stage) error {
	return func(s *stage) error { return s.target.Next(faults...) }
}

func kind(k fakeprovider.Kind) fakeprovider.Fault { return fakeprovider.Fault{Kind: k} }

// plainPaths: nothing goes wrong at the provider.
func plainPaths() []*path {
	return []*path{
		{
			name: "frozen-request", title: "the same call renders the same bytes, without a credential",
			static: func(s *sample) judgement {
				switch {
				case !s.renders:
					return verdictf(NotApplicable, "the adapter does not render beforehand: its version and the arguments are frozen")
				case s.renderer != "":
					return judgement{Unsafe, s.renderer}
				}
				return judgement{verdict: Safe}
			},
		},
		{name: "plain", title: "nothing goes wrong", want: succeededAtOnce},
		{name: "repeated", title: "the same request again: the same receipt, nothing sent", play: playRepeated, want: succeededAtOnce},
		{name: "joined", title: "the same request while the first is under way", prepare: prepareJoined, play: playJoined, want: succeededAtOnce},
		{name: "mismatch", title: "the same key with other arguments: refused, nothing sent", prepare: prepareMismatch, play: playMismatch, want: succeededAtOnce},
	}
}

// succeededAtOnce: where nothing goes wrong nobody is asked, and one write is
// enough.
func succeededAtOnce(_ *stage, e evidence) judgement {
	switch {
	case e.op.State != ledger.Succeeded:
		return verdictf(Stuck, "nothing went wrong, and the operation is %s: %s", e.op.State, whyNot(*e.op))
	case len(e.effects) != 1:
		return verdictf(Lie, "succeeded, and %s", holds(len(e.effects)))
	case len(e.writes()) > 1:
		return verdictf(Unsafe, "nothing went wrong, and %d writes were sent", len(e.writes()))
	}
	return judgement{verdict: Safe}
}

// answerPaths: the write arrives, and its answer does not, or is no answer.
func answerPaths() []*path {
	return []*path{
		{name: "drop-fin", title: "applied, then the connection ends", prepare: writes(kind(fakeprovider.DropAnswerAfterApplying))},
		{name: "drop-rst", title: "applied, then the connection is reset", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, Reset: true})},
		{name: "drop-before", title: "the connection ends before anything is applied", prepare: writes(kind(fakeprovider.DropBeforeReading))},
		{name: "error-before", title: "a server error, nothing applied", prepare: writes(kind(fakeprovider.ErrorBeforeApplying))},
		{name: "error-after", title: "a server error after applying", prepare: writes(kind(fakeprovider.ErrorAfterApplying))},
		{name: "unavailable-after", title: "503 with Retry-After, after applying", prepare: writes(fakeprovider.Fault{
			Kind: fakeprovider.ErrorAfterApplying, Status: 503, RetryAfter: time.Second})},
		{name: "gateway-before", title: "a gateway's page, nothing applied", prepare: writes(kind(fakeprovider.HTML502))},
		{name: "gateway-after", title: "a gateway's page after applying", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.HTML502, Apply: true})},
		{name: "malformed", title: "a success that is no JSON", prepare: writes(kind(fakeprovider.MalformedJSON201))},
		{name: "truncated", title: "a success cut short of its length", prepare: writes(kind(fakeprovider.TruncateAnswer))},
		{name: "truncated-chunked", title: "a success cut before its last chunk", prepare: writes(kind(fakeprovider.TruncateAnswerChunked))},
		{name: "truncated-close", title: "a success cut where HTTP sees no cut", prepare: writes(kind(fakeprovider.TruncateAnswerUntilClose))},
		{name: "empty", title: "a success without a body", prepare: writes(kind(fakeprovider.Empty201))},
		{name: "huge", title: "a success beyond every limit", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.HugeAnswer, Size: hugeSize})},
		{name: "wrong-content-type", title: "a success of another content type", prepare: writes(kind(wrongContentType))},
		{name: "nul", title: "a NUL in the answer", prepare: writes(kind(fakeprovider.NULAnswer))},
		{name: "lone-surrogate", title: "half of a surrogate pair in the answer", prepare: writes(kind(fakeprovider.LoneSurrogateAnswer))},
		{name: "invalid-utf8", title: "an answer that is no UTF-8", prepare: writes(kind(fakeprovider.InvalidUTF8Answer))},
		{name: "redirect-307", title: "told to send it elsewhere, nothing applied", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.Redirect, Status: 307})},
		{name: "redirect-302", title: "302, nothing applied", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.Redirect, Status: 302})},
		{name: "redirect-302-after", title: "302 after applying", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.Redirect, Status: 302, Apply: true})},
		{name: "redirect-303-after", title: "303 after applying: the result is elsewhere", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.Redirect, Status: 303, Apply: true})},
		{name: "accepted", title: "accepted, finished later", prepare: writes(fakeprovider.Fault{
			Kind: fakeprovider.Accepted202, SettleAfter: acceptedLag})},
	}
}

// hugeSize is more than an adapter is likely to read, in bytes.
const hugeSize = 9 << 20

// slowPaths: the attempt's time ends first.
func slowPaths() []*path {
	return []*path{
		{name: "slow-applied", title: "applied at once, answered too late", prepare: slow(fakeprovider.Fault{Kind: fakeprovider.NeverAnswer, Apply: true})},
		{name: "slow-lost", title: "never answered, never applied", prepare: slow(kind(fakeprovider.NeverAnswer))},
		{name: "slow-late", title: "applied after the attempt's time", prepare: prepareSlowLate},
		{name: "in-flight", title: "sent again while the first is still worked on", prepare: prepareInFlight},
	}
}

// slow gives each attempt little time.
func slow(fault fakeprovider.Fault) func(*stage) error {
	return func(s *stage) error {
		s.timeout = shortTimeout
		return s.target.Next(fault)
	}
}

// hold lets the first write stand at a gate before it is applied.
func (s *stage) hold() error {
	s.gate = fakeprovider.NewGate()
	return s.target.Next(fakeprovider.Fault{HoldBefore: s.gate})
}

// prepareSlowLate applies the write when its client has left and before anybody
// can look: as late as a contract's settle time allows for, and at a known
// moment.
func prepareSlowLate(s *stage) error {
	s.timeout = shortTimeout
	s.after = func(ctx context.Context, _ int) error { return s.release(ctx) }
	return s.hold()
}

// release lets go of the held write and waits until it is done.
func (s *stage) release(ctx context.Context) error {
	s.gate.Release()
	ctx, cancel := context.WithTimeout(ctx, longestTimeout)
	defer cancel()
	return s.target.Quiet(ctx)
}

// prepareInFlight holds the first write until a second one was answered.
func prepareInFlight(s *stage) error {
	if err := s.sentAgainInDoubt(); err != nil {
		return err
	}
	s.timeout = shortTimeout
	s.after = func(ctx context.Context, n int) error {
		if n < 2 {
			return nil
		}
		return s.release(ctx)
	}
	return s.hold()
}

// sentAgainInDoubt refuses a path that needs a second write while the first is
// in doubt.
func (s *stage) sentAgainInDoubt() error {
	switch {
	case !s.honoured():
		return errors.New("the provider honours no keys: nothing is sent again while in doubt")
	case s.spec.MaxAttempts < 2:
		return errors.New("the action type allows one attempt")
	}
	return nil
}

// refusalPaths: the provider says no.
func refusalPaths() []*path {
	return []*path{
		{name: "refused", title: "refused", prepare: writes(kind(fakeprovider.Reject))},
		{name: "refused-404", title: "refused as not found", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.Reject, Status: 404})},
		{name: "conflict-409", title: "a conflict that is not explained", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.Reject, Status: 409})},
		{name: "rate-limited", title: "rate limited, with Retry-After", prepare: writes(fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfter: time.Second})},
		{name: "rate-limited-bare", title: "rate limited, without a word about when", prepare: writes(kind(fakeprovider.RateLimited))},
		{name: "refused-after-doubt", title: "the answer lost, then refused", prepare: afterDoubt(kind(fakeprovider.Reject))},
		{name: "rate-limited-after-doubt", title: "the answer lost, then rate limited", prepare: afterDoubt(kind(fakeprovider.RateLimited))},
	}
}

// afterDoubt answers the second write with a fault; the first was applied and
// its answer lost.
func afterDoubt(fault fakeprovider.Fault) func(*stage) error {
	return func(s *stage) error {
		if err := s.sentAgainInDoubt(); err != nil {
			return err
		}
		return s.target.Next(kind(fakeprovider.DropAnswerAfterApplying), fault)
	}
}

// whyNot is what the ledger has to say about an operation without a receipt.
func whyNot(op ledger.Operation) string {
	var evidence string
	if n := len(op.Attempts); n > 0 {
		evidence = ": " + op.Attempts[n-1].Evidence
	}
	switch {
	case op.State == ledger.NeedsReview && op.Review != nil:
		return fmt.Sprintf("%s: %s%s", op.Review.Reason, op.Review.Detail, evidence)
	case op.Failure != nil:
		return op.Failure.Code + evidence
	default:
		return op.Reason + evidence
	}
}
