// Package guardgrpc is guard for gRPC servers: interceptors that refuse every
// call without a valid operation token, but for the methods that are named as
// reads, and perform each operation once.
//
// It imports guard, gRPC and protobuf, and must know nothing else of Onceward.
package guardgrpc
