// Package panels reads a Grafana dashboard file, asks a Prometheus the questions of
// its panels over a range of time, and draws the answers as one page of HTML. So a
// fault campaign can be looked at, and a panel that never has data found, where no
// Grafana is at hand.
//
// It knows nothing of Onceward; the file is the dashboard that ships.
package panels
