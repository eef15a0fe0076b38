package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/campaign"
	"github.com/onceward/onceward/chaos/judge"
	"github.com/onceward/onceward/chaos/replica"
)

// TestMain makes the test binary a replica where a campaign has executed it as one.
func TestMain(m *testing.M) {
	if os.Getenv(replica.Env) != "" {
		os.Exit(run(context.Background(), nil, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// short is a campaign of seconds.
func short(t *testing.T, faults ...string) campaign.Options {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Postgres runs as another account where this is root, which cannot get into the
	// test's own folders.
	dir, err := os.MkdirTemp(memory(), "onceward-chaos-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir) // a courtesy
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Log("databases, logs and stories are in", dir)
	return campaign.Options{
		Seed: 1, Duration: 6 * time.Second, Clients: 12, Gap: 700 * time.Millisecond, Faults: faults, Program: program, Dir: dir,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// A short campaign with every fault breaks no law, and does what a campaign is for.
func TestCampaign(t *testing.T) {
	t.Parallel()
	o := short(t)
	r, err := campaign.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Broken {
		t.Errorf("broken: %s", v)
	}
	if r.Violations != 0 || r.Duplicates != 0 || r.Lost != 0 || r.Unresolved != 0 {
		t.Errorf("the result is %+v", r)
	}
	if r.Effects == 0 || r.Doubted == 0 || r.DuplicatesServed == 0 || r.MismatchesRefused == 0 || len(r.Faults) < 5 {
		t.Errorf("the campaign tests too little: %+v", r)
	}
}

// A ledger that is broken on purpose is found out, by the rule that is for it.
func TestSabotageIsFound(t *testing.T) {
	for sabotage, rule := range map[replica.Sabotage]judge.Rule{
		replica.Resend: judge.OneEffect, replica.Mismatch: judge.Register, replica.Rewrite: judge.ReceiptLost,
	} {
		t.Run(string(sabotage), func(t *testing.T) {
			t.Parallel()
			o := short(t, "answer_")
			o.Sabotage, o.Replicas = sabotage, 2
			o.Duration, o.Rate, o.Patience = 4*time.Second, 60, 3*time.Second // much at once; what is stuck stays so
			r, err := campaign.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(r.Broken, func(v judge.Violation) bool { return v.Rule == rule }) {
				t.Errorf("%s was not found by %s: %v", sabotage, rule, r.Broken)
			}
			stories, err := filepath.Glob(filepath.Join(r.Stories, "*.txt"))
			if err != nil || len(stories) != r.Violations {
				t.Errorf("%d stories are told of %d violations: %v", len(stories), r.Violations, err)
			}
		})
	}
}

// The program: what it prints, and what it returns.
func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{{"-sabotage=nonsense"}, {"extra"}, {"-duration=x"}, {"-replicas=0"}, {"-duration=-1s"}} {
		var out, logs bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &out, &logs); code != 2 || out.Len() > 0 || logs.Len() == 0 {
			t.Errorf("%v: code %d, out %q, logs %q", args, code, out.String(), logs.String())
		}
	}
}

// Whatever comes out, it is said in the last line and in the exit code, and databases
// are kept where somebody may want to look at them.
func TestReport(t *testing.T) {
	for _, test := range []struct {
		name   string
		result campaign.Result
		err    error
		code   int
		kept   bool
	}{
		{"all laws held", campaign.Result{Seed: 7}, nil, 0, false},
		{"a law was broken", campaign.Result{Seed: 7, Violations: 1}, nil, 1, true},
		{"it could not be judged", campaign.Result{Seed: 7, Error: "no ledger"}, errors.New("no ledger"), 2, true},
		{"a law was broken, and there is more", campaign.Result{Seed: 7, Violations: 1}, errors.New("no room"), 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := campaign.Options{Dir: t.TempDir()}
			databases := filepath.Join(o.Dir, "postgres")
			if err := os.Mkdir(databases, 0o700); err != nil {
				t.Fatal(err)
			}
			var out, logs bytes.Buffer
			if code := report(test.result, test.err, o, &out, &logs); code != test.code {
				t.Errorf("code %d, want %d: %s", code, test.code, logs.String())
			}
			var told campaign.Result
			if err := json.Unmarshal(out.Bytes(), &told); err != nil || told.Seed != 7 || told.Error != test.result.Error {
				t.Errorf("it printed %s: %v", out.String(), err)
			}
			if _, err := os.Stat(databases); (err == nil) != test.kept {
				t.Errorf("databases: %v", err)
			}
		})
	}
}

// The last line is one JSON object, also of nothing.
func TestResultIsALine(t *testing.T) {
	text, err := json.Marshal(campaign.Result{})
	if err != nil || bytes.ContainsAny(text, "\n") {
		t.Fatalf("%s: %v", text, err)
	}
	for _, name := range []string{"seed", "seconds", "requests", "actions", "effects", "duplicates", "lost", "violations", "unresolved", "faults"} {
		if !strings.Contains(string(text), `"`+name+`"`) {
			t.Errorf("the line lacks %s: %s", name, text)
		}
	}
}
