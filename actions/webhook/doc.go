// Package webhook says whether a webhook call comes from who it claims to come
// from: a signature over its content under a shared secret, and a time that is
// near.
//
// [Rules] name a scheme: Standard Webhooks (and Svix, whose headers have another
// prefix), Stripe's, GitHub's, or a plain HMAC whose header, encoding and signed
// content are told. Several secrets may be valid at once, so that one can be
// replaced. What a verified message means is not known here: that is an
// actions.Source.
//
// The libraries of Standard Webhooks and of Stripe are not used. Each does one
// scheme and some fifty lines of it; Stripe's brings its whole API along, and
// both read the clock by themselves, accept one secret at a time, or report
// errors as text. crypto/hmac does what is hard.
//
// Not here: signatures with a public key (PayPal, SendGrid, the v1a of Standard
// Webhooks), and those inside the body (Adyen).
//
// The package is pure: no clock, no secret store, no network. It imports actions
// and the standard library, and must never know a ledger or a tenant.
package webhook
