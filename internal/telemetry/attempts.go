package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Attempts are the metrics of provider calls. They are safe for concurrent use.
type Attempts struct {
	labels    *labels
	total     *family[prometheus.Counter]
	duration  *family[prometheus.Observer]
	heldBack  *family[prometheus.Counter]
	overtaken *family[prometheus.Counter]
}

func newAttempts(r prometheus.Registerer, l *labels) *Attempts {
	return &Attempts{
		labels: l,
		total: counters(r, "onceward_attempts_total", "Provider calls, by what their answer proved.",
			"tenant", "action_type", "provider", "outcome"),
		duration: histograms(r, "onceward_attempt_duration_seconds", "Time of a provider call.", callBuckets, "provider", "outcome"),
		heldBack: counters(r, "onceward_held_back_total", "Attempts put off by this side.", "provider", "reason"),
		overtaken: counters(r, "onceward_overtaken_total", "Results that came after somebody else had moved the operation on.",
			"tenant", "action_type"),
	}
}

// Attempted counts a provider call.
func (m *Attempts) Attempted(tenant, actionType, provider, outcome string, took time.Duration) {
	provider = m.labels.providers.of(provider)
	m.total.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType), provider, outcome).Inc()
	m.duration.of(provider, outcome).Observe(took.Seconds())
}

// HeldBack counts an attempt that was put off.
func (m *Attempts) HeldBack(provider, reason string) {
	m.heldBack.of(m.labels.providers.of(provider), reason).Inc()
}

// Overtaken counts a result that came too late to move its operation.
func (m *Attempts) Overtaken(tenant, actionType string) {
	m.overtaken.of(m.labels.tenants.of(tenant), m.labels.actionTypes.of(actionType)).Inc()
}

// Dispatcher is what is read of a dispatcher when metrics are.
type Dispatcher interface {
	// InFlight is how many attempts have a place, and how many may.
	InFlight() (now, limit int)
	// Circuits tells each provider of each tenant that was used lately, and whether
	// calls to it are held back. It may tell one twice.
	Circuits(each func(tenant, provider string, open bool))
}

// ObserveDispatcher adds what is read of a dispatcher. A process has one; a second
// one panics.
func (t *Telemetry) ObserveDispatcher(d Dispatcher) {
	t.Registry.MustRegister(&dispatcherCollector{
		dispatcher: d, labels: t.labels,
		inFlight: prometheus.NewDesc("onceward_attempts_in_flight", "Attempts that have a place: from before their claim until they are settled.", nil, nil),
		limit:    prometheus.NewDesc("onceward_attempts_limit", "Attempts that may have a place at once.", nil, nil),
		circuit: prometheus.NewDesc("onceward_circuit_open", "1 while calls to this provider are held back.",
			[]string{"tenant", "provider"}, nil),
	})
}

// dispatcherCollector reads a dispatcher.
type dispatcherCollector struct {
	dispatcher               Dispatcher
	labels                   *labels
	inFlight, limit, circuit *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *dispatcherCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.inFlight
	out <- c.limit
	out <- c.circuit
}

// Collect implements prometheus.Collector.
func (c *dispatcherCollector) Collect(out chan<- prometheus.Metric) {
	now, limit := c.dispatcher.InFlight()
	out <- prometheus.MustNewConstMetric(c.inFlight, prometheus.GaugeValue, float64(now))
	out <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(limit))
	// Those that share a name are open while one of them is.
	circuits := map[[2]string]float64{}
	c.dispatcher.Circuits(func(tenant, provider string, open bool) {
		at := [2]string{c.labels.tenants.of(tenant), c.labels.providers.of(provider)}
		if open {
			circuits[at] = 1
		} else {
			circuits[at] += 0
		}
	})
	for at, open := range circuits {
		out <- prometheus.MustNewConstMetric(c.circuit, prometheus.GaugeValue, open, at[0], at[1])
	}
}
