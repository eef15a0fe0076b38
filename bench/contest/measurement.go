package contest

import "time"

// What a measurement is of.
const (
	Action    = "action"    // new keys
	Duplicate = "duplicate" // keys of finished actions
)

// Measurement is one load on one entry. Its JSON form is what programs of other
// modules print.
type Measurement struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Callers int     `json:"c"`
	Ops     int64   `json:"ops"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	// DatabaseCPU is what the Postgres server used for each, in microseconds;
	// zero where it is not known.
	DatabaseCPU float64 `json:"db_cpu_us,omitempty"`
	// ServerCPU is the same of the contestant's server, where it is a process of
	// its own.
	ServerCPU float64 `json:"server_cpu_us,omitempty"`
	// Skipped, in place of everything else, says why there is nothing.
	Skipped string `json:"skipped,omitempty"`
}

// PerSecond is the rate.
func (m Measurement) PerSecond() float64 {
	if m.Seconds == 0 {
		return 0
	}
	return float64(m.Ops) / m.Seconds
}

// NewMeasurement gives the outcome of a load its name.
func NewMeasurement(name, kind string, callers int, o Outcome) Measurement {
	return Measurement{
		Name: name, Kind: kind, Callers: callers, Ops: o.Ops, Seconds: o.Elapsed.Seconds(),
		P50: micros(o.P50), P99: micros(o.P99),
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
