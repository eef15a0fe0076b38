package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat: the kernel shows hundredths of a second
// on every Linux there is.
const tick = 10 * time.Millisecond

// stat holds what is read of /proc/PID/stat.
type stat struct {
	parent int
	own    time.Duration // user and system
	gone   time.Duration // of children that ended and were waited for
}

func readStat(pid string) (stat, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	// The name of the program, in brackets, may hold anything.
	_, rest, ok := strings.Cut(string(text), ") ")
	for again := ok; again; {
		var after string
		if _, after, again = strings.Cut(rest, ") "); again {
			rest = after
		}
	}
	fields := strings.Fields(rest) // from the state, which is field 3 of proc(5)
	if !ok || len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%s/stat: unexpected form", pid)
	}
	var numbers [5]int64
	for i, field := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return stat{}, err
		}
	}
	return stat{
		parent: int(numbers[0]),
		own:    time.Duration(numbers[1]+numbers[2]) * tick,
		gone:   time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}

// FamilyCPU is the processor time that a process and its children have used,
// the ones that ended included. The second result is false where the system
// does not tell.
func FamilyCPU(pid int) (time.Duration, bool) {
	top, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, false
	}
	sum := top.own + top.gone
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, false
	}
	for _, entry := range entries {
		if name := entry.Name(); name[0] >= '0' && name[0] <= '9' {
			// One that ends meanwhile is in its parent's sum the next time.
			if child, err := readStat(name); err == nil && child.parent == pid {
				sum += child.own
			}
		}
	}
	return sum, true
}

// Resident is the memory of a process that is in RAM, in MiB.
func Resident(pid int) (float64, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, false
	}
	kib, ok := field(string(text), "VmRSS:")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(kib, " kB"), 64)
	return n / 1024, err == nil
}

// field is the rest of the first line that begins with a name.
func field(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// HugePages reports whether a process has memory in pages of the system's reserve of
// huge ones, as a Postgres that found enough of them has its cache; not ok where the
// system does not tell.
func HugePages(pid int) (has, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false, false
	}
	size, ok := field(string(text), "HugetlbPages:")
	return ok && size != "0 kB", ok
}
