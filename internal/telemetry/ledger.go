package telemetry

import (
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/ledger"
)

// censusKept is how long a census is told when none comes after it. They come four
// times in this time: one that was missed is no gap, and numbers of a ledger that is
// away are not those of now.
const censusKept = time.Minute

// Ledger are the metrics of the store (it is an observer of ledger/postgres) and of
// what is open in it. It is safe for concurrent use, and telling it of a transaction
// allocates nothing.
type Ledger struct {
	rows, seconds [ledger.Lanes]prometheus.Observer
	overloaded    [ledger.Lanes]prometheus.Counter
	commits       [ledger.Founds]prometheus.Counter
	unanswered    prometheus.Counter

	open *openOperations
	load *storeLoad
}

// newLedger registers the metrics. actionType bounds the label of that name.
func newLedger(r prometheus.Registerer, actionType func(string) string) *Ledger {
	rows := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "onceward_ledger_batch_rows", Help: "Rows that shared a transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	}, []string{"lane"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "onceward_ledger_batch_duration_seconds", Help: "Time of a shared transaction.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"lane"})
	overloaded := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_ledger_overloaded_total", Help: "Rows refused because too many wait for a transaction.",
	}, []string{"lane"})
	commits := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_ledger_ambiguous_commits_total", Help: "Commits whose answer was lost, by what a look found afterwards.",
	}, []string{"result"})
	l := &Ledger{
		unanswered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_ledger_errors_total", Help: "Statements that the ledger did not answer.",
		}),
		open: &openOperations{actionType: actionType, now: time.Now, seen: map[openKey]struct{}{}}, load: &storeLoad{},
	}
	for lane := range ledger.Lanes {
		l.rows[lane], l.seconds[lane] = rows.WithLabelValues(lane.String()), seconds.WithLabelValues(lane.String())
		if lane != ledger.Reads { // of which none is refused
			l.overloaded[lane] = overloaded.WithLabelValues(lane.String())
		}
	}
	for found := range ledger.Founds {
		l.commits[found] = commits.WithLabelValues(found.String())
	}
	r.MustRegister(rows, seconds, overloaded, commits, l.unanswered, l.open, l.load)
	return l
}

// Batch counts rows that shared a transaction.
func (l *Ledger) Batch(lane ledger.Lane, rows int, took time.Duration) {
	l.rows[lane].Observe(float64(rows))
	l.seconds[lane].Observe(took.Seconds())
}

// Overloaded counts a row that was refused because too many wait.
func (l *Ledger) Overloaded(lane ledger.Lane) {
	if counter := l.overloaded[lane]; counter != nil {
		counter.Inc()
	}
}

// AmbiguousCommit counts a commit whose answer was lost.
func (l *Ledger) AmbiguousCommit(found ledger.Found) { l.commits[found].Inc() }

// Unanswered counts a statement without an answer.
func (l *Ledger) Unanswered() { l.unanswered.Inc() }

// Looked says whether the last look at the ledger was answered.
func (l *Ledger) Looked(answered bool) { l.load.looked(answered) }

// Load says who knows how busy the store is. It is asked at each scrape.
func (l *Ledger) Load(of func() ledger.Load) { l.load.of(of) }

// Counted takes the newest census; false takes it away, since what was open then
// says nothing about now.
func (l *Ledger) Counted(c ledger.Census, ok bool) { l.open.counted(c, ok) }

// storeLoad collects what the store knows of itself.
type storeLoad struct {
	mu       sync.Mutex
	load     func() ledger.Load // nil before there is a store
	answered *bool              // nil before the first look
}

var (
	ledgerUp          = prometheus.NewDesc("onceward_ledger_up", "1 while the last look at the ledger was answered.", nil, nil)
	ledgerWaiting     = prometheus.NewDesc("onceward_ledger_waiting", "Rows that wait for a transaction.", []string{"lane"}, nil)
	ledgerConnections = prometheus.NewDesc("onceward_ledger_connections", "Connections to the ledger.", []string{"state"}, nil)
)

func (s *storeLoad) looked(answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = &answered
}

func (s *storeLoad) of(load func() ledger.Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = load
}

// Describe implements prometheus.Collector.
func (*storeLoad) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ledgerUp, ledgerWaiting, ledgerConnections} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *storeLoad) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	load, answered := s.load, s.answered
	s.mu.Unlock()
	if answered != nil {
		up := 0.0
		if *answered {
			up = 1
		}
		to <- gauge(ledgerUp, up)
	}
	if load == nil {
		return
	}
	now := load()
	for lane, n := range now.Waiting {
		to <- gauge(ledgerWaiting, float64(n), ledger.Lane(lane).String())
	}
	to <- gauge(ledgerConnections, float64(now.Idle), "idle")
	to <- gauge(ledgerConnections, float64(now.Used), "used")
	to <- gauge(ledgerConnections, float64(now.Limit), "limit")
}

// openOperations collects the newest census.
type openOperations struct {
	actionType func(string) string
	now        func() time.Time

	mu     sync.Mutex
	census *ledger.Census // nil: there is none that says something about now
	at     time.Time
	// seen are told as 0 when they are gone: a gap would be no answer.
	seen map[openKey]struct{}
}

type openKey struct {
	state      ledger.State
	actionType string
}

var (
	openCount   = prometheus.NewDesc("onceward_operations", "Open operations in the ledger.", []string{"action_type", "state"}, nil)
	openOldest  = prometheus.NewDesc("onceward_oldest_operation_age_seconds", "Age of the oldest open operation in a state; 0 without one.", []string{"state"}, nil)
	openOverdue = prometheus.NewDesc("onceward_overdue_operations", "Open operations that somebody should have worked on a minute ago.", []string{"state"}, nil)
	restores    = prometheus.NewDesc("onceward_restores", "Restores of the ledger whose recovery has not been ended.", nil, nil)
	openReviews = prometheus.NewDesc("onceward_open_reviews", "Reviews that wait for a person.", []string{"reason"}, nil)
	switches    = prometheus.NewDesc("onceward_kill_switches", "Kill switches set.", []string{"scope"}, nil)
)

func (o *openOperations) counted(c ledger.Census, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.census, o.at = nil, o.now()
	if ok {
		o.census = &c
	}
}

// Describe implements prometheus.Collector.
func (*openOperations) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openCount, openOldest, openOverdue, openReviews, switches, restores} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (o *openOperations) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.census == nil || o.now().Sub(o.at) > censusKept {
		return
	}
	counts := map[openKey]int{}
	oldest, overdue := map[ledger.State]time.Duration{}, map[ledger.State]int{}
	for _, c := range o.census.Open {
		key := openKey{c.State, other}
		if c.ActionType != "" {
			key.actionType = o.actionType(c.ActionType)
		}
		o.seen[key] = struct{}{}
		counts[key] += c.Count
		oldest[c.State] = max(oldest[c.State], c.Oldest)
		overdue[c.State] += c.Overdue
	}
	for key := range o.seen {
		to <- gauge(openCount, float64(counts[key]), key.actionType, string(key.state))
	}
	for _, state := range ledger.OpenStates() {
		to <- gauge(openOldest, oldest[state].Seconds(), string(state))
		to <- gauge(openOverdue, float64(overdue[state]), string(state))
	}
	for _, reason := range ledger.ReviewReasons() {
		to <- gauge(openReviews, float64(o.census.Reviews[reason]), string(reason))
	}
	for _, scope := range ledger.SwitchScopes() {
		to <- gauge(switches, float64(o.census.Switches[scope]), string(scope))
	}
	to <- gauge(restores, float64(o.census.Restores))
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// registerBuild says which program this is.
func registerBuild(r prometheus.Registerer, version string) {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onceward_build_info", Help: "1."}, []string{"version", "goversion"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	r.MustRegister(info)
}
