package machine

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

func TestProcessesOfThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	if mib, ok := Resident(os.Getpid()); !ok || mib < 1 {
		t.Errorf("this process has %v MiB, %v", mib, ok)
	}
	before, ok := FamilyCPU(os.Getpid())
	if !ok {
		t.Fatal("the processor time of this process is not known")
	}
	// A child that is gone counts: its backends may end during a measurement.
	if err := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	if after, _ := FamilyCPU(os.Getpid()); after-before < tick {
		t.Errorf("%s before the child and %s after it", before, after)
	}
	if _, ok := Resident(1 << 30); ok {
		t.Error("a process that is not there has memory")
	}
}
