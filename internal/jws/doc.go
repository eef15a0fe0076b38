// Package jws signs and reads the one form of signed statement that Onceward
// knows: JWS in compact form (RFC 7515) with one Ed25519 signature (EdDSA, RFC
// 8037), a type and a key id. Nothing else is read: no other algorithm, no
// "none", no key that comes with the statement.
//
// It knows neither tokens nor receipts, and imports go-jose and the standard
// library.
package jws
