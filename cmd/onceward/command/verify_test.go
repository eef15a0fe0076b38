package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/proof"
)

// verifiable is a refund on a fake provider; a wrapped one is what the test
// makes of it.
func verifiable(wrap func(actions.Adapter) actions.Adapter) proof.Subject {
	return proof.Subject{
		Arguments: json.RawMessage(`{"charge_id":"ch_1","amount":4900,"currency":"usd"}`),
		Secrets:   []string{fakeprovider.DefaultToken},
		Open: func(context.Context, proof.Env) (actions.Adapter, proof.Target, error) {
			fake, err := proof.StartFake(fakeprovider.Options{})
			if err != nil {
				return nil, nil, err
			}
			adapters, err := demo.New(demo.Options{ProviderURL: fake.URL(), Token: fakeprovider.DefaultToken})
			if err != nil {
				return nil, nil, err
			}
			return wrap(adapters[0]), fake, nil
		},
	}
}

// credulous takes every doubt for a refusal.
type credulous struct{ actions.Adapter }

func (c credulous) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	o := c.Adapter.Execute(ctx, call)
	if o.Kind == actions.Ambiguous {
		o.Kind = actions.Rejected
	}
	return o
}

// verify runs the command with a subject in place of files.
func verify(t *testing.T, c verifyCmd, subject proof.Subject) (stdout, stderr string, err error) {
	t.Helper()
	closed := false
	c.load = func(context.Context, []string) ([]proof.Subject, func() error, error) {
		return []proof.Subject{subject}, func() error { closed = true; return nil }, nil
	}
	if c.Patience == 0 {
		c.Patience = 20 * time.Second
	}
	c.Files = []string{"refund.yaml"}
	var out, progress bytes.Buffer
	err = c.Run(t.Context(), streams{out: &out, err: &progress})
	if !closed {
		t.Error("what was loaded was not closed")
	}
	return out.String(), progress.String(), err
}

func TestVerifyTable(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := verify(t, verifyCmd{DatabaseURL: pgtest.AdminURL(t), Path: []string{"pl*n", "in-flight", "frozen-request"}},
		verifiable(func(a actions.Adapter) actions.Adapter { return a }))
	if err != nil {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		`(?m)^payments\.refund\.create on fakepay$`,
		`(?m)^PATH +REQUESTS +EFFECTS +FINAL STATE +VERDICT$`,
		`(?m)^frozen-request +- +- +- +safe$`,
		`(?m)^plain +1 write +1 +succeeded +safe$`,
		`(?m)^in-flight +3 writes +1 +succeeded +safe$`,
		`(?m)^3 paths of 1 action types: 3 safe$`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no line %s in:\n%s", want, stdout)
		}
	}
	if !strings.Contains(stderr, "preparing the ledger") || !strings.Contains(stderr, "3/3") || strings.Contains(stderr, "\r") {
		t.Errorf("progress: %q", stderr)
	}
	wantNoVerifyDatabase(t)
}

// wantNoVerifyDatabase waits until no run of this binary has a database on the
// server: another test may be at work.
func wantNoVerifyDatabase(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	left := 1
	for deadline := time.Now().Add(30 * time.Second); left > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_database WHERE datname LIKE 'onceward\_verify\_%'`).Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	if left > 0 {
		t.Errorf("%d databases are left on the server", left)
	}
}

// TestVerifyFails: an adapter that lies makes the command fail, and the report
// says where. Fields that are unknown to it fail the test: people parse them.
func TestVerifyFails(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := verify(t, verifyCmd{DatabaseURL: pgtest.AdminURL(t), JSON: true, Path: []string{"drop-fin", "plain"}},
		verifiable(func(a actions.Adapter) actions.Adapter { return credulous{a} }))
	if err == nil || !strings.Contains(err.Error(), "not proved: 2 ") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(stderr, "drop-fin: LIE") {
		t.Errorf("the failure was not told at once: %q", stderr)
	}
	var got struct {
		Failures int `json:"failures"`
		Subjects []struct {
			ActionType string             `json:"action_type"`
			Provider   string             `json:"provider"`
			Paths      []proof.PathReport `json:"paths"`
			Dangers    []proof.Danger     `json:"dangers"`
		} `json:"subjects"`
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil || decoder.More() {
		t.Fatalf("not exactly one object: %v in %s", err, stdout)
	}
	// The wrapper has no look-up either, so that the contract claims too much.
	if got.Failures != 2 || len(got.Subjects) != 1 || len(got.Subjects[0].Paths) != 2 || got.Subjects[0].Dangers[0].Code != "lookup_missing" {
		t.Fatalf("got %+v", got)
	}
	drop := got.Subjects[0].Paths[1]
	if drop.Path != "drop-fin" || drop.Verdict != proof.Lie || drop.Effects != 1 || drop.Writes != 1 || drop.State != "failed" {
		t.Errorf("got %+v", drop)
	}
}

// TestVerifyPrivate needs nothing but a Postgres's programs, and leaves nothing.
func TestVerifyPrivate(t *testing.T) {
	dir := scriptDir(t)
	t.Setenv("TMPDIR", dir)
	if _, _, err := verify(t, verifyCmd{Path: []string{"plain"}}, verifiable(func(a actions.Adapter) actions.Adapter { return a })); err != nil {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestVerifyList(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := (&verifyCmd{List: true}).Run(t.Context(), streams{out: &out}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PATH", "drop-fin", "lookup-lags", "killed-after-sending"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
	out.Reset()
	var listed []proof.PathInfo
	if err := (&verifyCmd{List: true, JSON: true}).Run(t.Context(), streams{out: &out}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &listed); err != nil || len(listed) != len(proof.Paths()) {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestVerifyWrongUsage: mistakes are told before anything is started.
func TestVerifyWrongUsage(t *testing.T) {
	t.Parallel()
	loaded := errors.New("loaded")
	for _, tt := range []struct {
		args string
		want string
	}{
		{"", "name the files"},
		{"a.yaml --path=nothing-*", "no path matches --path=nothing-*"},
		{"a.yaml --path=[", "is no pattern"},
		{"a.yaml --patience=2m", "--patience"},
		{"a.yaml --patience=0s", "--patience"},
		{"a.yaml --path=drop-* --path=plain", "loaded"},
	} {
		var line struct {
			Verify verifyCmd `cmd:""`
		}
		parser, err := kong.New(&line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(append([]string{"verify"}, strings.Fields(tt.args)...)); err != nil {
			t.Fatalf("%s: %v", tt.args, err)
		}
		line.Verify.load = func(context.Context, []string) ([]proof.Subject, func() error, error) { return nil, nil, loaded }
		err = line.Verify.Run(t.Context(), streams{out: &bytes.Buffer{}, err: &bytes.Buffer{}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, errUsage) == errors.Is(err, loaded) {
			t.Errorf("verify %s: %v, want %s", tt.args, err, tt.want)
		}
	}
}

// TestVerifyLeavesOut: what cannot be simulated is named, and the rest is proved.
func TestVerifyLeavesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"books.yaml":  "kind: provider\nname: books\nversion: \"1\"\nadapter: sql\nsql: {ledger: true}\n",
		"points.yaml": "kind: provider\nname: points\nversion: \"1\"\nadapter: grpc\ngrpc: {address: \"127.0.0.1:1\", plain_text: true}\n",
		"entry.yaml": "kind: action\ntype: books.entry.create\nversion: \"1\"\nprovider: books\ndescription: Write an entry.\narguments: {type: object, additionalProperties: false}\n" +
			"statement: {sql: \"SELECT 'one' AS reference, json_build_object() AS receipt\"}\nexamples:\n  - arguments: {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	subjects, _, err := loadSubjects(streams{err: &said}, []string{"../../../examples/provider", dir})
	if err != nil || len(subjects) != 1 {
		t.Fatalf("%d subjects, %v: %s", len(subjects), err, said.String())
	}
	for _, want := range []string{"points.yaml: not proved here: ", "entry.yaml: not proved here: books.entry.create "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %s", want, said.String())
		}
	}
}

// TestVerifyInterrupted: who interrupts has requested nothing that goes on.
func TestVerifyInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := verifyCmd{Files: []string{"refund.yaml"}, DatabaseURL: pgtest.AdminURL(t), Patience: time.Second}
	c.load = func(context.Context, []string) ([]proof.Subject, func() error, error) {
		cancel()
		return []proof.Subject{verifiable(func(a actions.Adapter) actions.Adapter { return a })}, func() error { return nil }, nil
	}
	if err := c.Run(ctx, streams{out: &bytes.Buffer{}, err: &bytes.Buffer{}}); !errors.Is(err, errInterrupted) || oneLine(err) != errInterrupted.Error() {
		t.Errorf("got %v", err)
	}
}
