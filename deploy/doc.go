// Package deploy checks what is in this folder for those who run Onceward: alert
// rules, dashboard, compose files and Kubernetes manifests. They name metrics,
// labels, runbooks and flags that live elsewhere, and nothing else would notice when
// those move.
//
// It is a module of its own, since parsing PromQL and rules brings Prometheus along.
// It has no code but tests; board makes the dashboard, catalogue reads
// docs/metrics.md, and panels asks a live Prometheus.
package deploy

//go:generate go run ./cmd/dashboard grafana/dashboards/onceward.json
