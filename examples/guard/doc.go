// Command guard is an internal service that accepts writes from Onceward alone,
// and makes each of them once: an example of package guard. docs/enforce.md
// explains it.
//
//	KEYS_URL=http://127.0.0.1:7090/.well-known/jwks.json ISSUER=urn:onceward:… go run ./examples/guard
//
// credits.go is the service, main.go puts it together. A service imports guard and
// nothing else of Onceward.
package main
