package campaign

import (
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward/chaos/replica"
)

// Options say what to run. Zero values are defaults.
type Options struct {
	Seed     uint64
	Duration time.Duration // of faults and requests; judging comes after; default 1 min
	Replicas int           // that serve callers; default 3
	Clients  int           // callers at once; default 24
	// Rate is how many steps all callers together take in a second; default 30. A step
	// is one to six calls.
	Rate float64
	// Faults are the names of faults, or beginnings of them ("pg_", "provider_");
	// empty or "all" is every fault there is, and "none" is none.
	Faults []string
	// Gap is the mean time between two faults of the schedule; default 1.2 s.
	Gap time.Duration
	// Sabotage breaks every replica's ledger on purpose.
	Sabotage replica.Sabotage
	// MetricsBase is the port of the first replica's /metrics on loopback, and the next
	// ones have the next; 0 serves none.
	MetricsBase int
	// LookEvery is how often memory, connections, sizes and latencies are looked at, as a
	// soak does; 0 is never.
	LookEvery time.Duration
	// Program is what is executed as a replica; default this program.
	Program string
	// Dir is where databases, logs and the stories of violations are kept; required.
	Dir string
	Log *slog.Logger // required

	// Patience is how long the campaign waits for everything to be resolved, when all
	// faults are healed; default 5 min: a doubt that was looked at often in vain is looked at
	// again after minutes.
	Patience time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" || o.Log == nil || o.Program == "" {
		return o, errors.New("campaign: it needs a folder, a log and a program")
	}
	o.Duration = orDefault(o.Duration, time.Minute)
	o.Replicas = orDefault(o.Replicas, 3)
	o.Clients = orDefault(o.Clients, 24)
	o.Rate = orDefault(o.Rate, 30)
	o.Gap = orDefault(o.Gap, 1200*time.Millisecond)
	o.Patience = orDefault(o.Patience, 5*time.Minute)
	return o, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// How long things take here. What the provider promises (arrivalTime, mailSettleTime)
// is longer than what the campaign's faults can hold a request up: providerDelay at
// the provider, edgeDelay on the way, searchLag behind it. A provider that breaks its
// promise is not what is tested.
const (
	attemptTimeout = 2 * time.Second
	leaseGrace     = 2 * time.Second
	reconcileLease = 3 * time.Second
	providerDelay  = 2500 * time.Millisecond
	edgeDelay      = 500 * time.Millisecond
	searchLag      = 700 * time.Millisecond
	arrivalTime    = 4 * time.Second
	mailSettleTime = 5 * time.Second
	lateLanding    = 3 * time.Second
	// pauseTime is longer than a lease.
	pauseTime = attemptTimeout + leaseGrace + time.Second
	// careful is how long a reviewer waits before believing that nothing is on its way.
	careful = mailSettleTime + providerDelay + edgeDelay + time.Second

	callTimeout = 6 * time.Second
	callWait    = 2 * time.Second
)
