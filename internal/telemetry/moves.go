package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Moves are the metrics of what happens to operations. They are safe for
// concurrent use.
type Moves struct {
	labels         *labels
	moves          *family[prometheus.Counter]
	doubts         *family[prometheus.Counter]
	doubtDuration  *family[prometheus.Observer]
	leases         *family[prometheus.Counter]
	contradictions *family[prometheus.Counter]
	opened         *family[prometheus.Counter]
	decided        *family[prometheus.Counter]
}

func newMoves(r prometheus.Registerer, l *labels) *Moves {
	return &Moves{
		labels: l,
		moves: counters(r, "onceward_moves_total", "Moves made by this process, and the state they led to.",
			"tenant", "action_type", "event", "state"),
		doubts: counters(r, "onceward_doubts_total", "Operations that became unknown.",
			"tenant", "action_type", "provider", "reason"),
		doubtDuration: histograms(r, "onceward_doubt_duration_seconds", "Time from doubt to its end.", doubtBuckets, "provider", "result"),
		leases:        counters(r, "onceward_lease_expiries_total", "Attempts whose lease ran out.", "tenant", "action_type"),
		contradictions: counters(r, "onceward_contradictions_total", "Two receipts, or a receipt after a proof of absence.",
			"tenant", "action_type", "provider"),
		opened:  counters(r, "onceward_reviews_opened_total", "Reviews opened.", "tenant", "action_type", "reason"),
		decided: counters(r, "onceward_reviews_decided_total", "Reviews that ended.", "tenant", "action_type", "decision"),
	}
}

// Moved counts a move.
func (m *Moves) Moved(tenant, actionType, event, state string) {
	m.moves.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), event, state).Inc()
}

// Doubted counts an operation that became unknown.
func (m *Moves) Doubted(tenant, actionType, provider, reason string) {
	m.doubts.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), m.labels.providers.of(provider), reason).Inc()
}

// DoubtEnded measures a doubt that led to the state result.
func (m *Moves) DoubtEnded(provider, result string, took time.Duration) {
	m.doubtDuration.of(m.labels.providers.of(provider), result).Observe(max(took, 0).Seconds())
}

// LeaseExpired counts an attempt whose lease ran out.
func (m *Moves) LeaseExpired(tenant, actionType string) {
	m.leases.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType)).Inc()
}

// Contradicted counts an operation whose evidence contradicts itself.
func (m *Moves) Contradicted(tenant, actionType, provider string) {
	m.contradictions.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), m.labels.providers.of(provider)).Inc()
}

// ReviewOpened counts a question to a person.
func (m *Moves) ReviewOpened(tenant, actionType, reason string) {
	m.opened.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), reason).Inc()
}

// ReviewDecided counts the end of one.
func (m *Moves) ReviewDecided(tenant, actionType, decision string) {
	m.decided.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), decision).Inc()
}
