// Package telemetry is where Onceward is seen from outside: the metrics of
// docs/metrics.md in a Prometheus registry, and OpenTelemetry traces that follow
// one action from its request to its last look or review.
//
// It is the only package that knows the Prometheus client and the SDK of
// OpenTelemetry. The parts that are observed (server, dispatch, reconciler,
// ledger/postgres) name what they tell in small interfaces of their own, which
// types of this package implement, and trace with the API of OpenTelemetry alone.
// It decides nothing, and nothing waits for it: a collector that is away costs
// spans, never a request.
package telemetry
