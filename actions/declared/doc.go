// Package declared turns definitions of HTTP providers and their actions into
// adapters: what a platform team writes in YAML, it runs.
//
// [NewConnection] makes what all actions of one provider share: the sender with
// its limits on where it may go, credentials and tokens, and the pace. [HTTP]
// makes the adapter of one action on it. [NewSource] reads the provider's
// webhooks. [Check] says what is wrong with a set of definitions, without secrets
// and without a network: it compiles every expression, renders every example and
// classifies every answer that the files give.
//
// The promises, beside those of httpaction:
//
//   - A request depends on the call and the definition alone. Credentials are
//     added for each attempt, are no part of what is frozen, and are removed
//     from what comes back. A token is fetched outside of the attempt: where
//     that fails, nothing was sent.
//   - An expression that fails never makes a claim: in a request nothing is
//     sent, in a rule the rule does not fit, in a receipt there is none, in a
//     look-up it is inconclusive.
//   - A look-up says that nothing is there only after it read all pages, whole
//     and from the provider itself, and only where the definition gives it
//     absence.
//   - The pace never lets an attempt sleep: where its turn is far, nothing is
//     sent and the operation is deferred.
//
// The package must never know the ledger, dispatch or a command line. It imports
// actions, definition, expr, httpaction, webhook, oauth2, x/time/rate, x/sync
// and the API of OpenTelemetry.
package declared
