package replica

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/onceward/onceward/actions/demo"
)

// Env is the environment variable that makes a chaos program a replica: it holds
// its Config.
const Env = "ONCEWARD_CHAOS_REPLICA"

// Config is what a replica is told.
type Config struct {
	Name        string
	DatabaseURL string // of the serving role
	SecretsDir  string
	PolicyDir   string
	Demo        demo.Options
	API         bool // serves callers
	Reconcile   bool
	Admin       string // address of its metrics; empty serves none

	ReconcileInterval time.Duration
	// How long others wait for what a dead replica was doing; zero: the defaults.
	LeaseGrace, ReconcileLease time.Duration
	ShutdownGrace              time.Duration
	// Sabotage breaks the replica's ledger on purpose: one of Sabotages.
	Sabotage Sabotage
}

func (c Config) encode() (string, error) {
	text, err := json.Marshal(c) //nolint:musttag // read by the same program
	if err != nil {
		return "", fmt.Errorf("replica: %w", err)
	}
	return Env + "=" + string(text), nil
}

// said is what a replica says on its standard output, a line each.
type said struct {
	// Ready is its first word; Address is where callers find it, if it serves any.
	Ready   bool   `json:"ready,omitempty"`
	Address string `json:"address,omitempty"`
	Stats   *Stats `json:"stats,omitempty"`
}

// Stats are what a process knows of itself.
type Stats struct {
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heap_bytes"`
	RSSBytes   int64  `json:"rss_bytes"`
}

// Commands that a replica takes, a line each.
const (
	commandArm   = "arm"   // and a crash point
	commandStats = "stats" // answer with Stats
)
