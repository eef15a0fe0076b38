// Package server decides: it is the gRPC face of Onceward.
//
// A request is authenticated, admitted (admission.go: action type, arguments,
// key, policy), opened in the ledger, dispatched and waited for (request.go).
// errors.go is the one place where errors become statuses, convert.go the one
// where operations become messages, nextstep.go the one that tells planners
// what to do.
//
// The package must never know SQL, a provider or the reconciler. It imports
// policy, ledger, actions, dispatch and the contract.
package server
