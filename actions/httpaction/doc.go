// Package httpaction is what adapters for HTTP providers are built from: a
// sender that knows whether a request may have left, and a classifier that
// turns an answer into an [actions.Outcome] by an allow-list of proofs.
//
// Start with [NewSender] and [NewClassifier]. [Sender.Send] makes exactly one
// attempt of one [Request] and reports it as an [Exchange];
// [Classifier.Classify] says what the exchange proves. [Sender.Read] is for
// look-ups. [PickJSON] and [JSONReceipt] make receipts. The package demo has
// three complete adapters.
//
// The promises:
//
//   - One Send is at most one request on one connection. No redirect is
//     followed, nothing is sent again, no cookie or proxy of the environment
//     is used. Go's own transport sends a POST again when it carries an
//     Idempotency-Key and a reused connection breaks: two effects, one 201.
//   - NotSent is said only when the connection was offered no byte. Everything
//     else may have been sent.
//   - Requests go only to the origins that were named, and only to private
//     addresses that were named. A refusal happens before the first byte.
//   - Credentials are added per attempt, are no part of what is frozen, and are
//     removed from what comes back.
//
// The package must never know the ledger, keys or retry policy: it makes one
// attempt and tells the truth about it. It imports the standard library, the
// package actions, the jsontext package and the API of OpenTelemetry, nothing else.
package httpaction
