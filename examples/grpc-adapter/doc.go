// Command grpc-adapter is an adapter in a process of its own: it serves
// onceward.v1.AdapterService for one action type, loyalty.points.grant. Onceward
// is its client. It is an example for teams that do not want their code, their
// credentials or their releases in Onceward's binary; in another language it
// would look the same. docs/grpc-adapters.md is the guide.
//
// Run it beside Onceward, on this machine and without TLS:
//
//	go run ./examples/grpc-adapter -listen 127.0.0.1:7070 \
//	    -provider-url https://loyalty.example.com -token-file token
//
// or elsewhere, with TLS on both sides:
//
//	grpc-adapter -listen :7070 -tls-cert server.pem -tls-key server-key.pem -client-ca onceward-ca.pem \
//	    -provider-url https://loyalty.example.com -token-file /run/secrets/loyalty
//
// The first line that it prints is the address. Health and reflection are on, so
// that grpcurl works without a proto file:
//
//	grpcurl -plaintext 127.0.0.1:7070 onceward.v1.AdapterService/Describe
//	grpcurl -plaintext 127.0.0.1:7070 grpc.health.v1.Health/Check
//
// What to read, in this order: service.go describes the action and says what each
// attempt proves; loyalty.go makes the one request to the provider, with
// actions/httpaction, which knows what was sent (any HTTP client that never
// sends twice will do); main.go serves. grpcadapter_test.go runs it as another
// process, through a whole Onceward, while answers are lost and the process is
// killed.
//
// The package must never know Onceward's ledger or server. It imports the
// contract, gRPC, and actions and actions/httpaction for the provider's side.
package main
