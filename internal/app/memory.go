package app

import (
	"os"
	"runtime/debug"
)

// How a serving process trades memory for time. Its heap is small and short
// lived, so that Go's default collects it many times a second. At 200 a server
// with 256 callers takes 156 MiB, at 160 it takes 143 and is as fast, at 120 it takes
// 128 and a twentieth more processor time; it may take 150 (docs/performance.md). The
// limit keeps a large heap (big arguments, many of them) from growing threefold.
const (
	gcPercent   = 160
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
