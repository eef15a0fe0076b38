package machine

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Facts describe the machine of a run.
type Facts struct {
	System    string  `json:"system"`
	Kernel    string  `json:"kernel,omitempty"`
	Processor string  `json:"processor,omitempty"`
	Cores     int     `json:"cores"`
	MemoryGiB float64 `json:"memory_gib,omitempty"`
	Go        string  `json:"go"`
	// Load is the load average of the minute before: what else the machine did.
	Load float64 `json:"load_before"`
}

// Busy reports whether something else used the machine, so that no figure can be
// trusted.
func (f Facts) Busy() bool { return f.Load > float64(f.Cores)/2 }

// Describe reads what the system tells of itself.
func Describe() Facts {
	f := Facts{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		f.Kernel, _, _ = strings.Cut(strings.TrimSpace(string(text)), "-")
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		name, _ := field(string(text), "model name")
		f.Processor = strings.TrimSpace(strings.TrimPrefix(name, ":"))
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		kib, _ := field(string(text), "MemTotal:")
		if n, err := strconv.ParseFloat(strings.TrimSuffix(kib, " kB"), 64); err == nil {
			f.MemoryGiB = float64(int(n/1024/1024*10)) / 10
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		minute, _, _ := strings.Cut(string(text), " ")
		if load, err := strconv.ParseFloat(minute, 64); err == nil {
			f.Load = load
		}
	}
	return f
}
