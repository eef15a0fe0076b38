// Package demo holds the adapters of the demonstration. They act on the fake
// provider and are the example of how to write an adapter in Go:
//
//   - [Refunds] (payments.refund.create): the provider honours idempotency
//     keys, so that doubt is resolved by the same key inside its window.
//   - [Invoices] (email.invoice.send): the provider knows no keys; doubt is
//     resolved by a search for our operation id, which lags.
//   - [Contacts] (crm.contact.create): the target has a natural key; a conflict
//     may be our own earlier effect, and a read by the key tells.
//
// Each is one file that reads from top to bottom: what the action is (Spec),
// what its arguments must be (schema, Validate), what is sent (Render), what the
// answer proves (the rules in the constructor), how the effect is found again
// (Lookup). Sending and the table of proofs are package httpaction's.
//
// What to watch when writing another:
//
//   - The request comes from the call alone. No clock, no random value, no
//     attempt number, no credential.
//   - Put the operation id into the provider's metadata, whatever else there
//     is: it is the only way to tell our effect from somebody else's.
//   - Do not claim "not applied" because an answer looks like it. An override
//     names where the provider promises it.
//   - A look-up that cannot tell says [actions.Inconclusive]. Only a complete
//     answer of the provider itself is evidence of absence.
//
// The package must never know the ledger or the fake provider's code; it
// imports the packages actions and httpaction and the standard library.
package demo
