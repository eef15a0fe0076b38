package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests are the metrics of the API. They are safe for concurrent use.
type Requests struct {
	labels          *labels
	total           *family[prometheus.Counter]
	duration        *family[prometheus.Observer]
	duplicates      *family[prometheus.Counter]
	mismatches      *family[prometheus.Counter]
	refusals        *family[prometheus.Counter]
	unauthenticated *family[prometheus.Counter]
	budgets         *family[prometheus.Counter]
	intents         *family[prometheus.Counter]
}

func newRequests(r prometheus.Registerer, l *labels) *Requests {
	return &Requests{
		labels: l,
		total: counters(r, "onceward_requests_total", "Requests that were answered, by what was done with them.",
			"tenant", "action_type", "disposition"),
		duration: histograms(r, "onceward_request_duration_seconds", "Time of RequestAction, the caller's wait included.", callBuckets, "disposition"),
		duplicates: counters(r, "onceward_duplicates_total", "Duplicates that were served, by cause.",
			"tenant", "action_type", "cause"),
		mismatches: counters(r, "onceward_key_mismatches_total", "Requests refused because their key belongs to other arguments.",
			"tenant", "action_type"),
		refusals: counters(r, "onceward_refusals_total", "Requests that ended with an error, by ErrorInfo reason.",
			"tenant", "action_type", "reason"),
		unauthenticated: counters(r, "onceward_unauthenticated_total", "Calls without a valid credential.", "reason"),
		budgets:         counters(r, "onceward_budget_refusals_total", "Requests that a budget refused.", "tenant", "budget"),
		intents:         counters(r, "onceward_intent_refusals_total", "Requests that an open intent refused.", "tenant", "action_type"),
	}
}

// Answered counts a request that came to its end.
func (m *Requests) Answered(tenant, actionType, disposition string, took time.Duration) {
	m.total.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), disposition).Inc()
	m.duration.of(disposition).Observe(took.Seconds())
}

// Duplicate counts a duplicate that was served.
func (m *Requests) Duplicate(tenant, actionType, cause string) {
	if cause == "" {
		cause = "unknown"
	}
	m.duplicates.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), cause).Inc()
}

// KeyMismatch counts a key that came with other arguments.
func (m *Requests) KeyMismatch(tenant, actionType string) {
	m.mismatches.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType)).Inc()
}

// Refused counts a request that ended with an error.
func (m *Requests) Refused(tenant, actionType, reason string) {
	m.refusals.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), reason).Inc()
}

// BudgetRefused counts a request that a budget refused.
func (m *Requests) BudgetRefused(tenant, budget string) {
	m.budgets.of(m.labels.tenants.of(tenant), m.labels.budgets.of(budget)).Inc()
}

// IntentRefused counts a request that an intent refused.
func (m *Requests) IntentRefused(tenant, actionType string) {
	m.intents.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType)).Inc()
}

// Unauthenticated counts a call without a valid credential. Nobody proved who it
// is, so there is no label of that.
func (m *Requests) Unauthenticated(reason string) { m.unauthenticated.of(reason).Inc() }
