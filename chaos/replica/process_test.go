package replica

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that ends by itself is told from one that was killed or stopped.
func TestFailure(t *testing.T) {
	for end, want := range map[string]string{
		"exit 2": "exit status 2", "kill -ABRT $$": "signal: aborted", "exit 0": "", "kill -KILL $$": "",
	} {
		t.Run(end, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "replica")
			script := "#!/bin/sh\necho '{\"ready\":true}'\nread command\n" + end + "\n"
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			logs, err := os.Create(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = logs.Close() })
			p, err := Start(t.Context(), program, Config{Name: "one"}, logs)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			if got := p.Failure(); got != "" {
				t.Errorf("while it runs: %q", got)
			}
			p.Arm("now")
			select {
			case <-p.Exited():
			case <-time.After(30 * time.Second):
				t.Fatal("it does not end")
			}
			if got := p.Failure(); got != want {
				t.Errorf("it ended with %q, want %q", got, want)
			}
		})
	}
}
