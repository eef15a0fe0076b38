// Package board is the Grafana dashboard "Onceward" as a table of panels, and
// renders it to the JSON that Grafana reads (deploy/grafana/dashboards).
//
// Each panel is a title, a sentence for somebody who was just woken up, a unit and
// its queries; what a query may name is docs/metrics.md, which a test holds it to.
// It knows nothing of Onceward's code, and nothing of how a query is answered.
package board
