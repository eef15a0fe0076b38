package guard

import (
	"errors"
	"fmt"
)

// Reason is why a request is refused, as everybody may know. The values are
// stable.
type Reason string

// The reasons.
const (
	// ReasonTokenRequired: a write came without a token.
	ReasonTokenRequired Reason = "OPERATION_TOKEN_REQUIRED"
	// ReasonTokenInvalid: the token is forged, expired, for another service or
	// from another installation. Why is for the service's own log.
	ReasonTokenInvalid Reason = "OPERATION_TOKEN_INVALID"
	// ReasonForbidden: a valid token, for another action or other arguments.
	ReasonForbidden Reason = "OPERATION_FORBIDDEN"
	// ReasonInProgress: the first request of this operation is being handled.
	ReasonInProgress Reason = "OPERATION_IN_PROGRESS"
	// ReasonUnresolved: the first request ended, and whether its write was made
	// is not known.
	ReasonUnresolved Reason = "OPERATION_UNRESOLVED"
	// ReasonDone: it was performed, and the response was not kept.
	ReasonDone Reason = "OPERATION_DONE"
	// ReasonMismatch: the first request of this operation had other arguments.
	ReasonMismatch Reason = "OPERATION_MISMATCH"
	// ReasonUnavailable: keys or store are away. Nothing was done.
	ReasonUnavailable Reason = "GUARD_UNAVAILABLE"
)

// RefusedError is the error of a request that is refused before it did anything.
type RefusedError struct {
	Reason Reason // for everybody
	Err    error  // for the service's own log; may be nil
}

// Error says all; answer with Reason alone.
func (r *RefusedError) Error() string {
	if r.Err == nil {
		return "guard: " + string(r.Reason)
	}
	return fmt.Sprintf("guard: %s: %s", r.Reason, r.Err)
}

func (r *RefusedError) Unwrap() error { return r.Err }

func refuse(reason Reason, err error) *RefusedError { return &RefusedError{Reason: reason, Err: err} }

// ReasonOf is the reason of any error of this package; what is unknown to it is
// ReasonUnavailable.
func ReasonOf(err error) Reason {
	var r *RefusedError
	if errors.As(err, &r) {
		return r.Reason
	}
	return ReasonUnavailable
}
