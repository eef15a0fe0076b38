package pgcluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// source names our file systems in /proc/mounts, with our process id behind it.
const source = "onceward-pgcluster-"

func mountMemory(dir string, megabytes int) error {
	unmountStale()
	return syscall.Mount(source+strconv.Itoa(os.Getpid()), dir, "tmpfs",
		syscall.MS_NODEV|syscall.MS_NOSUID, fmt.Sprintf("size=%dm,mode=0711", megabytes))
}

// unmount works while somebody still has a file open, too.
func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// unmountStale gives back the memory of processes that could not: they were killed.
func unmountStale() {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], source) {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimPrefix(fields[0], source))
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = unmount(fields[1]) // a courtesy: what stays is tried again next time
		}
	}
}
