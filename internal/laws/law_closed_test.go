package laws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/postgres"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Every move is on record with who made it, the record leads from nothing to
// where the operation is, and the serving role can add to it and nothing else.
func TestLaw11_EveryMoveIsAudited(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{newStub("test.approved", applied).approved()}})
	r := w.Start(t, nil)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying})
	w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded)
	w.AskIn(t, r, apptest.Refund("ch_missing_1", 500, "run_2"), failed)
	w.AskIn(t, r, apptest.Invoice("inv_1"), succeeded)
	w.AskIn(t, r, apptest.Note("n", "run_3"), succeeded)
	op := w.AskIn(t, r, stubRequest("test.approved", "yes"), needsReview).GetOperation()
	resolve(t, w, r, w.Reviewer, op.GetReview().GetId(), approve())
	id := w.WaitFor(t, "acme", op.GetId(), ledger.Succeeded).ID
	var by []string
	for _, e := range w.Database.Audit(t, ledger.Operation{Tenant: "acme", ID: id}) {
		by = append(by, e.Event+" by "+e.Actor)
	}
	got := strings.Join(by, ", ")
	// Who is first makes the attempt: the server at once, or the reconciler.
	if want := "escalate by planner, approve by rita, claim by %s, confirm by worker"; got != fmt.Sprintf(want, "worker") && got != fmt.Sprintf(want, "reconciler") {
		t.Errorf("audit record is %s", got)
	}

	for what, query := range map[string]string{
		"operations have no record of where they are": `SELECT count(*) FROM operations o WHERE status IS DISTINCT FROM
			(SELECT to_status FROM audit_events e WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id ORDER BY sequence DESC LIMIT 1)`,
		"events do not follow from the ones before": `SELECT count(*) FROM (SELECT from_status,
			lag(to_status, 1, '') OVER (PARTITION BY tenant_id, operation_id ORDER BY sequence) AS before FROM audit_events) e WHERE from_status <> before`,
		"events name nobody": `SELECT count(*) FROM audit_events WHERE actor = ''`,
		"operations have other attempts than their record tells": `SELECT count(*) FROM operations o WHERE attempt <>
			(SELECT count(*) FROM attempts a WHERE a.tenant_id = o.tenant_id AND a.operation_id = o.id)`,
		"first events are without the key of their operation": `SELECT count(*) FROM operations o WHERE NOT EXISTS (SELECT FROM audit_events e
			WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id AND e.sequence = 1 AND e.idempotency_key = o.idempotency_key)`,
	} {
		if n := w.Database.Count(t, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	serving := w.Database.Serve(t)
	for _, sql := range []string{
		`UPDATE audit_events SET actor = 'nobody'`, `DELETE FROM audit_events`, `TRUNCATE audit_events`,
		`ALTER TABLE audit_events DISABLE TRIGGER ALL`, `DROP TABLE audit_events`, `SET session_replication_role = replica`,
	} {
		_, err := serving.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" {
			t.Errorf("%s: got %v, want insufficient_privilege", sql, err)
		}
	}
}

// The ledger is away: nothing is sent, the caller is told so and when to ask
// again; when it is back everything goes on. A duplicate may still get its receipt
// from memory, as long as the credential was read within the last second; then it
// is refused too.
func TestLaw12_LedgerDown(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	done := apptest.Refund("ch_0", 500, "run_0")
	receipt := w.AskIn(t, r, done, succeeded).GetOperation().GetReceipt()
	sent := len(w.Provider.Requests())
	own, err := pgx.ParseConfig(w.Database.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	name := own.Database
	conn, err := pgx.Connect(t.Context(), pgtest.AdminURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	allow := func(yes bool) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS %v`, name, yes)); err != nil {
			t.Fatal(err)
		}
	}
	allow(false)
	if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename <> current_user`, name); err != nil {
		t.Fatal(err)
	}
	var known error
	apptest.Eventually(t, func() bool {
		var resp *oncewardv1.RequestActionResponse
		resp, known = w.Try(t.Context(), r, done)
		if known == nil && (!resp.GetReplayed() || !proto.Equal(resp.GetOperation().GetReceipt(), receipt)) {
			t.Fatalf("got %v", resp)
		}
		return known != nil
	}, w.Describe)
	apptest.WantReason(t, known, codes.Unavailable, "LEDGER_UNAVAILABLE")
	for _, req := range []*oncewardv1.RequestActionRequest{done, apptest.Refund("ch_1", 500, "run_1"), apptest.Contact("li@example.test"), apptest.Note("n", "run_2")} {
		_, err := w.Try(t.Context(), r, req)
		st := apptest.WantReason(t, err, codes.Unavailable, "LEDGER_UNAVAILABLE")
		wantPlain(t, err)
		if !strings.Contains(st.Message(), "nothing was sent") {
			t.Errorf("the error does not say what happened: %s", st.Message())
		}
	}
	if n := len(w.Provider.Requests()); n != sent {
		t.Errorf("%d requests were sent without a ledger; %s", n-sent, w.Describe())
	}
	allow(true)
	var resp *oncewardv1.RequestActionResponse
	apptest.Eventually(t, func() bool {
		var err error
		resp, err = w.Try(t.Context(), r, apptest.Refund("ch_1", 500, "run_1"))
		return err == nil
	}, w.Describe)
	w.WantOneEffect(t, resp.GetOperation().GetId())
	w.WantEffects(t, 2)
}

// An operation whose adapter is gone waits; it is not sent by any other, and a
// new request for it is refused.
func TestLaw12_AdapterMissing(t *testing.T) {
	t.Parallel()
	lost := newStub("test.lost", applied).approved()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{lost}})
	before := w.Start(t, nil)
	op := w.AskIn(t, before, stubRequest("test.lost", "key"), needsReview).GetOperation()
	before.Stop()
	w.Adapters = nil
	after := w.Start(t, nil)
	resolve(t, w, after, w.Reviewer, op.GetReview().GetId(), approve())
	// The reconciler has looked at it once the next attempt is put off.
	apptest.Eventually(t, func() bool { return w.Held(t, op.GetId()).Revision > 2 }, func() string { return fmt.Sprint(w.Trail(t, op.GetId())) })
	_, err := w.Try(t.Context(), after, stubRequest("test.lost", "key"))
	apptest.WantReason(t, err, codes.NotFound, "UNKNOWN_ACTION_TYPE")
	if got := w.Held(t, op.GetId()); got.State != ledger.Pending || got.Attempt != 0 || lost.calls.Load() != 0 {
		t.Errorf("operation is %s after %d attempts and %d calls", got.State, got.Attempt, lost.calls.Load())
	}
}

// What was sealed with a key that a replica does not have is not sent. Another
// replica may have it, so that a person is asked only when nobody could.
func TestLaw12_ArgumentsThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	serving := w.Start(t, withoutReconciler)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropBeforeReading})
	id := start(t, w, serving, apptest.Invoice("inv_1"))
	w.WaitFor(t, "acme", id, ledger.Unknown)
	sent := len(w.Provider.Requests())
	w.Start(t, func(c *app.Config) { c.Secrets = otherSealing(t, w) })
	for look := 1; look <= actions.DefaultMaxResolves; look++ {
		putOff := func() bool { got := w.Held(t, id); return got.Resolves >= look && got.LeaseExpiresAt.IsZero() }
		apptest.Eventually(t, putOff, func() string { return fmt.Sprint(w.Trail(t, id)) })
		if got := w.Held(t, id); got.State != ledger.Unknown {
			t.Fatalf("operation is %s after %d looks", got.State, got.Resolves)
		}
		w.Database.Age(t, ledger.Operation{Tenant: "acme", ID: id}, time.Hour)
	}
	op := w.WaitFor(t, "acme", id, ledger.NeedsReview)
	if !strings.Contains(op.Review.Detail, "No replica that looked") || len(w.Provider.Requests()) != sent {
		t.Errorf("review says %q; %s", op.Review.Detail, w.Describe())
	}
}

func loadSecrets(t testing.TB, w *apptest.World) *secrets.Secrets {
	t.Helper()
	s, err := secrets.Load(w.SecretsDir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// otherSealing is the world's provider secret with another key for arguments.
func otherSealing(t *testing.T, w *apptest.World) *secrets.Secrets {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "other")
	if err := secrets.Create(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	mine := loadSecrets(t, w)
	for _, e := range entries { // the file that holds the provider secret
		if !strings.Contains(e.Name(), "provider") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(w.SecretsDir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other, err := secrets.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if other.Fingerprint() != mine.Fingerprint() {
		t.Fatal("the provider secret was not copied")
	}
	return other
}

// A wrong configuration does not start, and says what is wrong.
func TestLaw12_WrongConfigurationDoesNotStart(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	w.Start(t, nil) // remembers the installation's secret
	own := loadSecrets(t, w)
	foreign := func() *secrets.Secrets {
		dir := filepath.Join(t.TempDir(), "foreign")
		if err := secrets.Create(dir); err != nil {
			t.Fatal(err)
		}
		s, err := secrets.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}()
	adapters, err := demo.New(w.Options.Demo)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := actions.NewRegistry(adapters...)
	if err != nil {
		t.Fatal(err)
	}
	empty := pgtest.NewDatabase(t, pgtest.Template{Name: "empty"})
	with := func(change func(*app.Config)) app.Config {
		c := app.Config{DatabaseURL: w.Database.ServeURL, Secrets: own, Registry: registry, Log: slog.New(slog.DiscardHandler)}
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		config app.Config
		says   string
		is     error
	}{
		"another secret": {with(func(c *app.Config) { c.Secrets = foreign }), "second effects", postgres.ErrOtherSecret},
		"no schema":      {with(func(c *app.Config) { c.DatabaseURL = empty }), "run onceward migrate", nil},
		"no database":    {with(func(c *app.Config) { c.DatabaseURL = "postgres://nobody@127.0.0.1:1/none" }), "connect", nil},
		"no URL":         {with(func(c *app.Config) { c.DatabaseURL = "http://x" }), "database url", nil},
		"lossy commits":  {with(func(c *app.Config) { c.DatabaseURL += optionOf(c.DatabaseURL, "synchronous_commit%3Doff") }), "synchronous_commit", nil},
		"plain text":     {with(func(c *app.Config) { c.Listener = everywhere{} }), "plain text", app.ErrPlainText},
	} {
		_, err := app.New(t.Context(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want it to say %q", name, err, c.says)
		}
	}
	if _, err := actions.NewRegistry(adapters[0], adapters[0]); err == nil {
		t.Error("two adapters of one action type are accepted")
	}
}

// optionOf is a server setting as a part of a URL.
func optionOf(url, setting string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return separator + "options=-c%20" + setting
}

// everywhere is a listener on all addresses that is never used.
type everywhere struct{ net.Listener }

func (everywhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 1} }
