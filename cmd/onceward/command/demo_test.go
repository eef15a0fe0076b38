package command

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/pgtest"
)

// demoNumbers are the numbers of demo --json. Fields that are unknown to it
// fail the test: people parse them.
type demoNumbers struct {
	Requests int          `json:"requests"`
	Waiting  int          `json:"waiting"`
	Direct   demoEffects  `json:"direct"`
	Onceward demoOnceward `json:"onceward"`
	Killed   demoOnceward `json:"onceward_killed"`
}

type demoEffects struct {
	Effects    int `json:"effects"`
	Duplicates int `json:"duplicates"`
	Missing    int `json:"missing"`
}

type demoOnceward struct {
	demoEffects
	Replayed        int `json:"replayed"`
	Refused         int `json:"refused"`
	UnknownResolved int `json:"unknown_resolved"`
	Unresolved      int `json:"unresolved"`
	Kills           int `json:"kills"`
}

// TestDemo plays the sample trace with real processes. That every action has
// exactly the effects it wants is judged by the demo itself, action by action:
// no duplicate and nothing missing is just that.
func TestDemo(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "onceward", "demo", "--json", "--speed=10", "--database-url="+pgtest.AdminURL(t))
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, stderr.String(), stdout.String())
	}
	var got demoNumbers
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil || decoder.More() {
		t.Fatalf("not exactly one object: %v", err)
	}
	if got.Requests == 0 || got.Waiting != 0 || got.Direct.Duplicates == 0 || got.Direct.Missing == 0 {
		t.Errorf("straight to the provider nothing goes wrong: %+v", got)
	}
	for name, play := range map[string]demoOnceward{"onceward": got.Onceward, "killed": got.Killed} {
		want := demoEffects{Effects: got.Direct.Effects - got.Direct.Duplicates + got.Direct.Missing}
		if play.demoEffects != want || play.Unresolved != 0 {
			t.Errorf("%s: got %+v, want %+v and nothing unresolved", name, play, want)
		}
		if play.Replayed == 0 || play.Refused != 3 || play.UnknownResolved < 7 {
			t.Errorf("%s: got %+v, want replays, three refusals, and the doubts of the seven cases that cause one", name, play)
		}
	}
	if got.Onceward.Kills != 0 || got.Killed.Kills != 5 {
		t.Errorf("killed %d and %d times, want 0 and 5", got.Onceward.Kills, got.Killed.Kills)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
	wantNoDemoDatabase(t)
}

func wantNoDemoDatabase(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `
		SELECT datname::text FROM pg_database WHERE datname LIKE 'onceward\_demo\_%'
		UNION ALL SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'onceward\_demo\_%'`)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(left) > 0 {
		t.Errorf("left on the server: %v, %v", left, err)
	}
}

// TestDemoRefuses: mistakes are told before anything is started.
func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(trace, []byte("{\"t_ms\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"demo", "--trace=" + trace}, exitError, "t.jsonl:1: "},
		{[]string{"demo", "--speed=0"}, exitUsage, "--speed"},
		{[]string{"demo", "--speed=21"}, exitUsage, "--speed"},
		{[]string{"demo", "--kills=-1"}, exitUsage, "--kills"},
	}
	for _, test := range tests {
		var out, stderr bytes.Buffer
		code := Main(test.args, Options{Stdout: &out, Stderr: &stderr})
		if code != test.code || !strings.Contains(stderr.String(), test.want) || strings.Count(stderr.String(), "\n") != 1 || out.Len() > 0 {
			t.Errorf("%v: exit code %d, printed %q and %q", test.args, code, out.String(), stderr.String())
		}
	}
}
