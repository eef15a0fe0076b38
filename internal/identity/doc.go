// Package identity says who asks: it turns the credential of a request into a
// tenant, an actor and roles. It is the authenticator of the server.
//
// There are three kinds of credentials, and a request has a bearer token, a
// client certificate, or both, which then must agree:
//
//   - API keys, whose hashes are in the ledger (keys.go);
//   - tokens (JWT) of configured issuers (token.go), checked with keys that the
//     issuer publishes (keyset.go), and mapped by their claims (mapping.go);
//   - client certificates that TLS has verified (tls.go), mapped by subject or
//     URI (certificate.go).
//
// Issuers and rules are in one file (config.go), which is read anew when it
// changes (file.go). An issuer speaks only for the tenants that the file gives
// it. A tenant must exist in the ledger and be switched on, whatever a
// credential says; what the ledger answers is remembered for one second
// (recent.go).
//
// Everything that is not known, not allowed or not readable is refused. A
// refusal says why, for the log and the audit record; the server tells callers
// nothing of it.
//
// The package must never know an operation, an action or SQL: it asks the
// ledger through a small interface. It may import server for the form of a
// credential, policy for principals and roles, ledger for its errors, and
// actions/definition for the form of a fault in a file.
package identity
