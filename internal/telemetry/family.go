package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxLabels is the most labels of one metric.
const maxLabels = 4

// values are those of a metric's labels, in their order.
type values [maxLabels]string

// family is a metric with labels, whose children are found without allocating:
// the client's own look-up does for each call. There are as many children as
// bounded values (labels.go) can form. It is safe for concurrent use.
type family[M any] struct {
	size  int // of its labels
	child func(values ...string) M

	mu       sync.RWMutex
	children map[values]M
}

func newFamily[M any](size int, child func(values ...string) M) *family[M] {
	if size > maxLabels {
		panic("telemetry: a metric has too many labels")
	}
	return &family[M]{size: size, child: child, children: map[values]M{}}
}

// of returns the child with these values: as many as the metric has labels.
func (f *family[M]) of(each ...string) M {
	var v values
	copy(v[:], each)
	f.mu.RLock()
	child, ok := f.children[v]
	f.mu.RUnlock()
	if ok {
		return child
	}
	return f.add(v)
}

func (f *family[M]) add(v values) M {
	f.mu.Lock()
	defer f.mu.Unlock()
	child, ok := f.children[v]
	if !ok {
		child = f.child(v[:f.size]...)
		f.children[v] = child
	}
	return child
}

// counters, histograms and gauges register a metric with labels. A name that is
// registered twice is a mistake in this package, and panics.

func counters(r prometheus.Registerer, name, help string, labels ...string) *family[prometheus.Counter] {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(vec)
	return newFamily(len(labels), vec.WithLabelValues)
}

func histograms(r prometheus.Registerer, name, help string, buckets []float64, labels ...string) *family[prometheus.Observer] {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.MustRegister(vec)
	return newFamily(len(labels), vec.WithLabelValues)
}

func gauges(r prometheus.Registerer, name, help string, labels ...string) *family[prometheus.Gauge] {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.MustRegister(vec)
	return newFamily(len(labels), vec.WithLabelValues)
}

// Bounds of histograms, in seconds.
var (
	// callBuckets are of calls: 1 ms is a replay from memory, and a minute the
	// longest wait.
	callBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// doubtBuckets are of doubts: some end in a moment, and some wait for a person
	// over a weekend.
	doubtBuckets = []float64{.1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600}
)
