package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/catalog"
)

// runSimulate runs the command until the test ends, and returns what it printed.
func runSimulate(t *testing.T, c *simulateCmd) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := c.Run(ctx, streams{out: write, err: io.Discard})
		_ = write.CloseWithError(errors.Join(err, io.EOF))
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var out strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Stop with") {
			break
		}
	}
	return out.String()
}

// TestSimulatePrintsWhatWorks runs the printed lines of every entry of the
// catalogue in a shell, as whoever reads them would.
func TestSimulatePrintsWhatWorks(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err == nil {
		_, err = exec.LookPath("curl")
	}
	if err != nil {
		t.Fatal("this test needs bash and curl: ", err)
	}
	names, err := catalog.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := runSimulate(t, &simulateCmd{Names: []string{name}, Listen: "127.0.0.1:0"})
			entry, _, err := catalog.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			var script strings.Builder
			for line := range strings.Lines(out) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "TOKEN=") || strings.HasPrefix(line, "curl -si ") {
					script.WriteString(line + "; echo\n")
				}
			}
			address := regexp.MustCompile(`http://\S+:\d+`).FindString(out)
			script.WriteString("curl -s " + address + "/_fake/effects\n")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			shell := exec.CommandContext(ctx, bash, "-c", script.String())
			got, err := shell.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, script.String(), got)
			}
			for _, a := range entry.Actions {
				if !bytes.Contains(got, []byte(`"resource":"`+a.Type+`"`)) {
					t.Errorf("%s has no effect:\n%s\n%s", a.Type, script.String(), got)
				}
			}
		})
	}
}

func TestSimulateFiles(t *testing.T) {
	out := runSimulate(t, &simulateCmd{Names: []string{filepath.Join("..", "..", "..", "examples", "provider")}, Listen: "127.0.0.1:0"})
	for _, want := range []string{"parcelkit is simulated on http://127.0.0.1:", "PARCELKIT_TOKEN=simulatedPARCELKITTOKEN", "parcelkit.label.create:\n  curl -si -X POST"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	for want, c := range map[string]simulateCmd{
		"nobody is no file, no folder and no name of the catalogue": {Names: []string{"nobody"}, Listen: "127.0.0.1:0"},
		"loopback only":             {Names: []string{"stripe"}, Listen: "0.0.0.0:7081"},
		"want an address":           {Names: []string{"stripe"}, Listen: "7081"},
		"cannot be negative":        {Names: []string{"stripe"}, Listen: "127.0.0.1:0", LookupLag: -1},
		"one provider can be simul": {Names: []string{"../../../catalog/stripe", "../../../catalog/slack"}, Listen: "127.0.0.1:0"},
		"choose another address":    {Names: []string{"stripe"}, Listen: "127.0.0.1:99999"},
	} {
		err := c.Run(t.Context(), streams{out: io.Discard, err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for text, want := range map[string]string{
		"a b":          `'a b'`,
		"it's":         `'it'\''s'`,
		"a\r\n'\\\x01": `$'a\r\n\'\\\x01'`,
	} {
		if got := shellQuote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
