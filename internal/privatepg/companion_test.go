//go:build unix

package privatepg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCompanion(t *testing.T) {
	t.Parallel()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, test := range []struct {
		name, script string
		signal       os.Signal // nil: it ends by itself
		how, says    string
	}{
		{"ends by itself", "echo hello; exit 3", nil, "exit status 3", "hello"},
		{"told to end", "exec sleep 1000", syscall.SIGKILL, "signal: killed", ""},
	} {
		c, err := StartCompanion(log, shell, "-c", test.script)
		if err != nil {
			t.Fatal(err)
		}
		if test.signal != nil {
			if how := c.How(); how != "" {
				t.Errorf("%s: it ended too early: %s", test.name, how)
			}
			if err := c.Signal(test.signal); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		select {
		case <-c.Done():
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it runs on", test.name)
		}
		if c.How() != test.how {
			t.Errorf("%s: it ended as %q, want %q", test.name, c.How(), test.how)
		}
		if err := c.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("%s: a signal after the end: %v", test.name, err)
		}
		text, err := os.ReadFile(log.Name())
		if err != nil || !strings.Contains(string(text), test.says) {
			t.Errorf("%s: the log is %q, %v", test.name, text, err)
		}
	}
	if _, err := StartCompanion(log, filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Errorf("a program that is missing is the shell's to tell, as its end: %v", err)
	}
}

func TestCommandAndOwn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Own(path); err != nil {
		t.Fatal(err)
	}
	cmd, err := Command(t.Context(), shell, "-c", "id -u; pwd")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if got := strings.Fields(string(out)); !ok || len(got) != 2 || got[1] != "/" || got[0] != fmt.Sprint(st.Uid) {
		t.Errorf("a command ran as %q; the file is %v's", out, st)
	}
}
