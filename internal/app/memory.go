package app

import (
	"os"
	"runtime/debug"
)

// How a serving process trades memory for time. Its heap is small and short
// lived, so that Go's default collects it many times a second. At 300 a server
// with 256 callers took 180 MiB; at 200 it takes 145, and it may take 150
// (docs/performance.md). The limit keeps a large heap (big
// arguments, many of them) from growing threefold.
const (
	gcPercent   = 200
	memoryLimit = 512 << 20
)

// TuneMemory sets how often this process collects garbage. GOGC and GOMEMLIMIT
// win where they are set.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
