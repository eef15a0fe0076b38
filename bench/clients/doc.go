// Package clients holds the connections that the callers of a gRPC server
// share. It must know no service.
package clients
