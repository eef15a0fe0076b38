// Package telemetry is what a server pays for being observed: otelgrpc with the
// SDK's tracer and meter, which record every call and export nothing. All gRPC
// servers of a run have the same.
package telemetry
