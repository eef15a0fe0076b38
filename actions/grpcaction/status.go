package grpcaction

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

var errNoAnswer = errors.New("no answer")

// outcomeOfError returns what a call proves that did not end with OK. The code
// decides nothing: each of them can come from the library, from an intermediary
// or from a handler that has acted already.
func outcomeOfError(x exchange) actions.Outcome {
	switch {
	case !x.opened:
		o := notSent(x, "The adapter could not be reached; nothing was sent.")
		o.Unreached = true
		return o
	case x.refused:
		return notSent(x, "The adapter refused the call before anything of it was processed.")
	}
	if claimed, ok := attachedOutcome(x.err); ok {
		switch o := outcomeOf(claimed); o.Kind {
		case actions.Rejected, actions.NotApplied, actions.RateLimited:
			return o
		default: // an error that claims more than a refusal contradicts itself
		}
	}
	return ambiguous(evidenceOf(x))
}

func notSent(x exchange, message string) actions.Outcome {
	return actions.Outcome{Kind: actions.NotApplied, Failure: actions.Failure{
		Code: codeUnreachable, Message: message, Evidence: evidenceOf(x),
	}}
}

// attachedOutcome returns the one Outcome among the details of a status.
func attachedOutcome(err error) (*oncewardv1.Outcome, bool) {
	var found *oncewardv1.Outcome
	for _, detail := range status.Convert(err).Details() {
		if o, ok := detail.(*oncewardv1.Outcome); ok {
			if found != nil {
				return nil, false
			}
			found = o
		}
	}
	return found, found != nil
}

// evidenceOf says what was observed of a call that failed.
func evidenceOf(x exchange) string {
	s := status.Convert(x.err)
	what := "request may have left"
	switch {
	case !x.opened:
		what = "not sent, no stream was opened"
	case x.refused:
		what = "not processed, the stream was refused"
	}
	return oneLine(fmt.Sprintf("gRPC %s, %s: %s", s.Code(), what, s.Message()))
}

func notListed(err error) bool { return status.Code(err) == codes.NotFound }
