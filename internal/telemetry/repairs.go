package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Repairs are the metrics of the reconciler. They are safe for concurrent use.
type Repairs struct {
	labels    *labels
	total     *family[prometheus.Counter]
	lookups   *family[prometheus.Observer]
	lastRound prometheus.Gauge
	rounds    prometheus.Histogram
}

func newRepairs(r prometheus.Registerer, l *labels) *Repairs {
	m := &Repairs{
		labels: l,
		total: counters(r, "onceward_reconciliations_total", "Looks at a doubt, by what came of them.",
			"tenant", "action_type", "provider", "result"),
		lookups: histograms(r, "onceward_lookup_duration_seconds", "Time of a look-up.", callBuckets, "provider"),
		lastRound: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_reconciler_last_round_timestamp_seconds", Help: "When the last complete round ended."}),
		rounds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "onceward_reconciler_round_duration_seconds", Help: "Time of a round.", Buckets: callBuckets}),
	}
	r.MustRegister(m.lastRound, m.rounds)
	return m
}

// Looked counts a look at a doubt.
func (m *Repairs) Looked(tenant, actionType, provider, result string) {
	m.total.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), m.labels.providers.of(provider), result).Inc()
}

// LookedUp measures a look-up.
func (m *Repairs) LookedUp(provider string, took time.Duration) {
	m.lookups.of(m.labels.providers.of(provider)).Observe(took.Seconds())
}

// Round measures a complete round.
func (m *Repairs) Round(ended time.Time, took time.Duration) {
	m.lastRound.Set(float64(ended.UnixMilli()) / 1000)
	m.rounds.Observe(took.Seconds())
}

// Webhooks are the metrics of the inbox. They are safe for concurrent use.
type Webhooks struct {
	labels *labels
	total  *family[prometheus.Counter]
}

func newWebhooks(r prometheus.Registerer, l *labels) *Webhooks {
	return &Webhooks{labels: l, total: counters(r, "onceward_webhooks_total", "Calls of providers.", "tenant", "provider", "result")}
}

// Received counts a call. verified: the provider has proved that it is its own and
// the ledger knows the tenant; else both names are as a stranger says, and must not
// take the place of others.
func (m *Webhooks) Received(tenant, provider, result string, verified bool) {
	if verified {
		m.total.of(m.labels.tenants.of(tenant), m.labels.providers.of(provider), result).Inc()
		return
	}
	m.total.of(m.labels.tenants.known(tenant), m.labels.providers.known(provider), result).Inc()
}

// Reloads are the metrics of files that are taken over while the process runs.
type Reloads struct{ failures *family[prometheus.Gauge] }

func newReloads(r prometheus.Registerer) *Reloads {
	return &Reloads{failures: gauges(r, "onceward_reload_failures", "1 while changed files are refused.", "kind")}
}

// Refused returns what is told whether the changed files of a kind ("definitions",
// "policies") are refused now.
func (m *Reloads) Refused(kind string) func(refused bool) {
	gauge := m.failures.of(kind)
	gauge.Set(0)
	return func(refused bool) {
		if refused {
			gauge.Set(1)
		} else {
			gauge.Set(0)
		}
	}
}
