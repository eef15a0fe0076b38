package fakeprovider

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Kind names how a provider misbehaves. Its text is the name in the control
// API. The empty Kind is [None].
type Kind string

// The kinds of fault. "Applies" says whether the target holds an effect
// afterwards (of a write that is valid and no replay of a key).
const (
	// None: the provider behaves; flags of the fault (look-up lag, holds)
	// still count. Applies.
	None Kind = "none"

	// DropAnswerAfterApplying cuts the connection without an answer. Applies.
	DropAnswerAfterApplying Kind = "drop_answer_after_applying"
	// DropBeforeReading cuts the connection before the request is looked at.
	// (The bytes are taken off the wire, so that a script can match on them.)
	DropBeforeReading Kind = "drop_before_reading"
	// RefuseConnection is an attempt that finds no listener. A listening
	// socket cannot refuse a chosen connection, so this is no fault to script:
	// call Server.Pause before the attempt and Server.Resume after it, or
	// POST /_fake/pause. [ParseFault] knows the name for scripts that do this.
	RefuseConnection Kind = "refuse_connection_once"

	// Delay waits Fault.Delay, then works, also when the client has left. Applies.
	Delay Kind = "delay"
	// DelayAfterApplying applies, waits Fault.Delay, then answers. Applies.
	DelayAfterApplying Kind = "delay_after_applying"
	// NeverAnswer holds the request until the client leaves or the server
	// closes. Applies only with Fault.Apply.
	NeverAnswer Kind = "never_answer"

	// RateLimited answers 429 (Fault.Status to change) in front of everything
	// else, with Retry-After where the fault names one. Does not apply.
	RateLimited Kind = "rate_limited"
	// Reject answers a 4xx (default 422). Does not apply.
	Reject Kind = "reject"
	// ErrorBeforeApplying answers a 5xx (default 500) that was produced in
	// execution, so that StoreFailures keeps it. Does not apply.
	ErrorBeforeApplying Kind = "error_before_applying"
	// ErrorAfterApplying answers a 5xx (default 500). Applies.
	ErrorAfterApplying Kind = "error_after_applying"
	// HTML502 is a proxy's page: HTML, no sign of the provider. Applies only
	// with Fault.Apply.
	HTML502 Kind = "html_502"
	// Redirect answers a 3xx (default 307). Applies only with Fault.Apply.
	Redirect Kind = "redirect"
	// OwnAnswer is one of the answers that the resource knows by the name
	// Fault.Answer ([Resource.Fault]). Applies only with Fault.Apply.
	OwnAnswer Kind = "own_answer"
	// Accepted202 answers that the write will be done later: 202 and a pending
	// object, or what the resource has for it. It is done once
	// Fault.SettleAfter has passed. Applies.
	Accepted202 Kind = "accepted_202"

	// TruncateAnswer sends half of what Content-Length promises. Applies.
	TruncateAnswer Kind = "truncate_answer"
	// TruncateAnswerChunked cuts a chunked answer before its last chunk. Applies.
	TruncateAnswerChunked Kind = "truncate_answer_chunked"
	// TruncateAnswerUntilClose sends half an answer that ends where the
	// connection does: HTTP sees no error in it. Applies.
	TruncateAnswerUntilClose Kind = "truncate_answer_until_close"
	// MalformedJSON201 answers text that is no JSON. Applies.
	MalformedJSON201 Kind = "malformed_json_201"
	// Empty201 answers no body. Applies.
	Empty201 Kind = "empty_201"
	// WrongContentType declares the answer as HTML. Applies.
	WrongContentType Kind = "wrong_content_type"
	// HugeAnswer pads the answer to Fault.Size bytes of valid JSON. Applies.
	HugeAnswer Kind = "huge_answer"
	// NULAnswer puts an escaped NUL into Fault.Field. Applies.
	NULAnswer Kind = "nul_answer"
	// LoneSurrogateAnswer puts half a surrogate pair into Fault.Field. Applies.
	LoneSurrogateAnswer Kind = "lone_surrogate_answer"
	// InvalidUTF8Answer puts bytes that are no UTF-8 into Fault.Field. Applies.
	InvalidUTF8Answer Kind = "invalid_utf8_answer"
)

// Kinds lists every kind, in the order of their declaration.
func Kinds() []Kind {
	return []Kind{
		None, DropAnswerAfterApplying, DropBeforeReading, RefuseConnection,
		Delay, DelayAfterApplying, NeverAnswer,
		RateLimited, Reject, ErrorBeforeApplying, ErrorAfterApplying, HTML502, Redirect, OwnAnswer, Accepted202,
		TruncateAnswer, TruncateAnswerChunked, TruncateAnswerUntilClose,
		MalformedJSON201, Empty201, WrongContentType, HugeAnswer, NULAnswer, LoneSurrogateAnswer, InvalidUTF8Answer,
	}
}

// Fault is one scripted misbehaviour. The zero value is none. Fields that a
// kind does not name in its comment have no meaning for it, except the flags
// at the end, which go with every kind.
type Fault struct {
	Kind Kind

	// Status replaces the kind's default status: RateLimited, Reject,
	// ErrorBeforeApplying, ErrorAfterApplying, Redirect.
	Status int
	// Apply makes NeverAnswer, HTML502, Redirect and OwnAnswer apply the write
	// first.
	Apply bool
	// InExecution makes Reject and OwnAnswer a failure of the execution, which
	// StoreFailures keeps, and not one of the validation in front of it.
	InExecution bool
	// Location is where Redirect points. Empty means the created object after
	// an effect, else the request's own path.
	Location string
	// SettleAfter is how long the object of Accepted202 stays pending.
	SettleAfter time.Duration
	// Size is the length of a HugeAnswer in bytes. Zero means 8 MiB.
	Size int
	// Field is the answer's field that NULAnswer, LoneSurrogateAnswer and
	// InvalidUTF8Answer spoil. Empty means "status", or what the resource says.
	Field string
	// Answer is the name of an OwnAnswer.
	Answer string

	// RetryAfter becomes a Retry-After header in whole seconds, rounded up, on
	// RateLimited, Reject and the errors. Zero sends no header.
	RetryAfter time.Duration
	// RetryAfterText is sent as Retry-After as it is (a date, rubbish) and
	// wins over RetryAfter.
	RetryAfterText string
	// Reset makes a cut connection end with RST in place of FIN.
	Reset bool

	// Delay waits before the request is acted on; with DelayAfterApplying,
	// after. The wait does not end when the client leaves.
	Delay time.Duration
	// HoldBefore and HoldAfter hold the request before it is acted on (a key
	// is in use by then) and after, before the answer.
	HoldBefore, HoldAfter *Gate
	// LookupLag hides the object that this write creates for this long from
	// every look-up but a read by its own id.
	LookupLag time.Duration
	// DuplicateLookup makes look-ups find two objects for the one effect.
	DuplicateLookup bool

	// Times is how many requests take this fault: zero means one, a negative
	// number all that come.
	Times int
}

// String names the kind and the flags, in the form that [ParseFault] reads
// where it has one.
func (f Fault) String() string {
	s := string(f.kind())
	if f.Answer != "" {
		s += ":" + f.Answer
	}
	if f.LookupLag > 0 {
		s += lagSuffix
	}
	if f.DuplicateLookup {
		s += duplicateSuffix
	}
	return s
}

// Validate reports why a fault cannot be scripted, or nil.
func (f Fault) Validate() error {
	switch k := f.kind(); {
	case k == RefuseConnection:
		return errors.New("refuse_connection_once is a matter of the listener: pause the server (Server.Pause, POST /_fake/pause)")
	case !slices.Contains(Kinds(), k):
		return fmt.Errorf("unknown fault kind %q", f.Kind)
	case f.Delay < 0 || f.LookupLag < 0 || f.SettleAfter < 0 || f.RetryAfter < 0 || f.Size < 0:
		return fmt.Errorf("fault %s: durations and sizes cannot be negative", k)
	case (k == Delay || k == DelayAfterApplying) && f.Delay == 0:
		return fmt.Errorf("fault %s needs a delay", k)
	}
	return f.validateStatus()
}

func (f Fault) validateStatus() error {
	if f.Status == 0 {
		return nil
	}
	low, high := 400, 599
	switch f.kind() {
	case Redirect:
		low, high = 300, 399
	case Reject:
		high = 499
	case ErrorBeforeApplying, ErrorAfterApplying:
		low = 500
	case RateLimited:
	default:
		return fmt.Errorf("fault %s takes no status", f.kind())
	}
	if f.Status < low || f.Status > high {
		return fmt.Errorf("fault %s: status %d is not within %d–%d", f.kind(), f.Status, low, high)
	}
	return nil
}

func (f Fault) kind() Kind {
	if f.Kind == "" {
		return None
	}
	return f.Kind
}

// executes says whether a write gets as far as its execution.
func (f Fault) executes() bool {
	switch f.kind() {
	case DropBeforeReading, RateLimited:
		return false
	case NeverAnswer, HTML502, Redirect:
		return f.Apply
	case OwnAnswer:
		return f.Apply || f.InExecution
	case Reject:
		return f.InExecution
	default:
		return true
	}
}

// applies says whether the execution gets as far as the effect.
func (f Fault) applies() bool {
	switch f.kind() {
	case ErrorBeforeApplying, Reject:
		return false
	case OwnAnswer:
		return f.Apply
	default:
		return true
	}
}

// failure is the error of the kinds that answer with one.
func (f Fault) failure() (Failure, bool) {
	var out Failure
	switch f.kind() {
	case RateLimited:
		out = Failure{http.StatusTooManyRequests, "rate_limit_error", "rate_limited", "Too many requests."}
	case Reject:
		out = Failure{http.StatusUnprocessableEntity, "invalid_request_error", "rejected", "The request was refused."}
	case ErrorBeforeApplying, ErrorAfterApplying:
		out = Failure{http.StatusInternalServerError, "api_error", "internal_error", "Something went wrong on our side."}
	case OwnAnswer:
		out = Failure{http.StatusInternalServerError, "api_error", "no_such_answer", "The script names an answer that is not known."}
	default:
		return Failure{}, false
	}
	if f.Status != 0 {
		out.Status = f.Status
	}
	return out, true
}

func (f Fault) retryAfter() string {
	if f.RetryAfterText != "" || f.RetryAfter == 0 {
		return f.RetryAfterText
	}
	return fmt.Sprint(int64((f.RetryAfter + time.Second - 1) / time.Second))
}
