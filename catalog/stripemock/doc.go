// Package stripemock checks what the catalogue sends to Stripe against Stripe's
// own description of its API: stripe-mock refuses requests that do not fit it.
//
// It is a module of its own, so that stripe-mock's dependencies never meet ours.
package stripemock
