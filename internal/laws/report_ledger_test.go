package laws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/dispatch"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/ledger/postgres"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
	"github.com/onceward/onceward/reconciler"
)

// Rows that are not finished are not absent to a cleaner, however old: the key
// leads to the same operation, and nothing new is made.
func TestReport31_CleanerLeavesTheUnfinished(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	tenant := db.Tenant(t, "acme")
	unfinished := []ledger.State{ledger.Pending, ledger.Running, ledger.Unknown, ledger.NeedsReview}
	for i := range 2 * len(unfinished) {
		state, opening := unfinished[i/2], ledgertest.Opening(tenant)
		if state == ledger.Pending {
			opening = ledgertest.Recorded(tenant)
		}
		opening.ExpiredKeyReuse = i%2 == 1 // cleaned up without a tombstone, when it is finished
		op := ledgertest.Brought(t, store, ledgertest.Open(t, store, opening), state)
		db.Age(t, op, years)
		for range 2 {
			if buried, swept, _, err := store.Sweep(t.Context(), 100); err != nil || buried+swept != 0 {
				t.Errorf("%s: %d buried, %d swept, %v", state, buried, swept, err)
			}
		}
		again := ledgertest.Opening(tenant)
		again.Operation.Key = op.Key
		got, created, err := store.Open(t.Context(), again)
		if err != nil || created || got.ID != op.ID || got.State != state {
			t.Errorf("%s: the key leads to %s %s, created %v, %v", state, got.ID, got.State, created, err)
		}
	}
}

// The ledger's own connections break in the middle of everything, as often as
// it takes: one row for a key, one event for a step, one effect.
func TestReport35_ConnectionsBreak(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	conn := w.Database.Owner(t)
	done := make(chan struct{})
	finished := make([]atomic.Bool, 24)
	go func() {
		defer close(done)
		together(len(finished), func(i int) {
			requests := []*oncewardv1.RequestActionRequest{
				apptest.Refund(fmt.Sprintf("ch_%d", i), 5, fmt.Sprintf("run_%d", i)), apptest.Note(fmt.Sprintf("n_%d", i), fmt.Sprintf("run_%d", i)),
			}
			for try := 0; try < 400 && !finished[i].Load(); try++ {
				resp, err := r.Actions.RequestAction(apptest.As(t.Context(), w.Agent), apptest.Waiting(requests[i%2], 2*time.Second))
				switch {
				case err != nil && status.Code(err) != codes.Unavailable:
					t.Errorf("request %d: %v", i, err)
					return
				case resp.GetOperation().GetState() == succeeded:
					finished[i].Store(true)
				}
			}
		})
	}()
	for cuts := 0; cuts < 15; cuts++ {
		if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename <> current_user`); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	for i := range finished {
		if !finished[i].Load() {
			t.Errorf("request %d did not get through", i)
		}
	}
	w.WantEffects(t, len(finished)/2)
	for what, query := range map[string]string{
		"operations, want 24":            `SELECT abs(count(*) - 24) FROM operations`,
		"notes, want 12":                 `SELECT abs(count(*) - 12) FROM demo_notes`,
		"events out of step":             `SELECT count(*) FROM (SELECT from_status, lag(to_status, 1, '') OVER (PARTITION BY operation_id ORDER BY sequence) AS b FROM audit_events) e WHERE from_status <> b`,
		"attempts that are not counted":  `SELECT count(*) FROM operations o WHERE attempt <> (SELECT count(*) FROM attempts a WHERE a.operation_id = o.id)`,
		"attempts without their claim":   `SELECT count(*) FROM attempts a WHERE (SELECT count(*) FROM audit_events e WHERE e.operation_id = a.operation_id AND e.attempt = a.number AND e.event IN ('claim', 'replay')) <> 1`,
		"operations that did not settle": `SELECT count(*) FROM operations WHERE status <> 'succeeded'`,
	} {
		if n := w.Database.Count(t, query); n != 0 {
			t.Errorf("%s: off by %d", what, n)
		}
	}
}

// Two batches of the same keys in opposite order: no deadlock, nothing lost,
// nothing twice.
func TestReport37_OppositeOrders(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, nil)
	const n = 50
	together(2*n, func(i int) {
		at := i / 2
		if i%2 == 1 {
			at = n - 1 - at
		}
		req := apptest.Note(fmt.Sprintf("n_%d", at), "run_1")
		req.Run.StepId = fmt.Sprintf("step_%d", at)
		if resp, err := w.Try(t.Context(), r, req); err != nil || resp.GetOperation().GetState() != succeeded {
			t.Errorf("note %d: %v, %v", at, resp, err)
		}
	})
	if got := w.Database.Count(t, `SELECT count(*) FROM demo_notes`); got != n {
		t.Errorf("%d notes, want %d", got, n)
	}
}

// The terminal write fails again and again: replays say honestly that it is
// under way, the provider is not called again, and the receipt is recorded as
// soon as the ledger takes it.
func TestReport43_TerminalWriteFails(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	book := &forgetful{}
	book.apply.Store(1 << 20)
	r := w.Start(t, forgets(book))
	id := start(t, w, r, apptest.Refund("ch_1", 500, "run_1"))
	wantRequests(t, w, 1)
	apptest.Eventually(t, func() bool { return book.applyCalls.Load() >= 4 }, w.Describe)
	resp := w.AskIn(t, r, apptest.Waiting(apptest.Refund("ch_1", 500, "run_1"), 0), running)
	if resp.GetReplayed() || resp.GetNextStep().GetKind() != wait || resp.GetOperation().GetReceipt() != nil {
		t.Errorf("while it cannot be recorded: %v", resp)
	}
	book.apply.Store(0)
	w.WaitFor(t, "acme", id, ledger.Succeeded)
	w.WantOneEffect(t, id)
	w.WantTrail(t, id, "claim confirm")
	if n := writes(w); n != 1 {
		t.Errorf("%d writes", n)
	}
}

// The terminal write never succeeds and the process goes: the row ends in
// doubt and the reconciler completes it, with the same key.
func TestReport43_TerminalWriteIsLost(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	book := &forgetful{}
	book.apply.Store(1 << 20)
	r := w.Start(t, func(c *app.Config) {
		forgets(book)(c)
		c.Reconcile, c.ShutdownGrace = false, time.Millisecond
	})
	id := start(t, w, r, apptest.Refund("ch_1", 500, "run_1"))
	wantRequests(t, w, 1)
	apptest.Eventually(t, func() bool { return book.applyCalls.Load() >= 2 }, w.Describe)
	r.Stop()
	w.Database.Age(t, w.Held(t, id), time.Hour)
	next := w.Start(t, nil)
	w.AskIn(t, next, apptest.Refund("ch_1", 500, "run_1"), succeeded)
	w.WantOneEffect(t, id)
	w.WantTrail(t, id, "claim doubt replay confirm")
}

// A ledger that cannot be written to (a replica, a primary that was demoted)
// decides nothing: no claim, no answer from what it may have missed.
func TestReport47_ReadOnlyLedgerDecidesNothing(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, func(c *app.Config) { c.DatabaseURL += optionOf(c.DatabaseURL, "default_transaction_read_only%3Doff") })
	w.AskIn(t, r, apptest.Note("before", "run_0"), succeeded)
	r.Stop()
	w.Database.Exec(t, `ALTER ROLE onceward_test_serve IN DATABASE `+databaseName(t, w)+` SET default_transaction_read_only = on`)
	_, err := app.New(t.Context(), app.Config{DatabaseURL: w.Database.ServeURL, Log: slog.New(slog.DiscardHandler), Secrets: loadSecrets(t, w), Registry: noActions(t)})
	if !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("started on a ledger that cannot be written to: %v", err)
	}
	store, err := postgres.Open(t.Context(), w.Database.ServeURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	for _, key := range []string{"new", "known"} {
		o := ledgertest.Opening("acme")
		o.Operation.Key = key
		if op, created, err := store.Open(t.Context(), o); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("a claim on it: %v, created %v, %v", op, created, err)
		}
	}
}

// A clean-up that fails is tried again at its next turn.
func TestReport61_FailedCleanUpIsTriedAgain(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	op := ledgertest.InState(t, store, db.Tenant(t, "acme"), ledger.Succeeded)
	db.Age(t, op, years)
	book := &failingSweep{Store: store}
	book.fail.Store(3)
	registry := noActions(t)
	d, err := dispatch.New(dispatch.Options{Ledger: store, Registry: registry, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := reconciler.New(reconciler.Options{Ledger: book, Dispatcher: d, Log: slog.New(slog.DiscardHandler), Interval: time.Millisecond, SweepInterval: time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	apptest.Eventually(t, func() bool { return db.Count(t, `SELECT count(*) FROM tombstones`) == 1 },
		func() string { return fmt.Sprintf("%d clean-ups left to fail", book.fail.Load()) })
	stop()
	<-done
}

// failingSweep is a ledger whose clean-up fails as often as it says.
type failingSweep struct {
	*postgres.Store
	fail atomic.Int32
}

func (f *failingSweep) Sweep(ctx context.Context, limit int) (int64, int64, bool, error) {
	if f.fail.Add(-1) >= 0 {
		return 0, 0, false, ledger.ErrUnavailable
	}
	return f.Store.Sweep(ctx, limit)
}

// The effect is made and recording it fails three times, before the statement
// or after it: the evidence is written, and the effect is not made again.
func TestReport63_EvidenceBeforeEverything(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before the statement": false, "the answer is lost": true} {
		for _, method := range []string{"open", "start", "apply"} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newStub("test.effect", nil)
				s.execute = func(ctx context.Context, call actions.Call) actions.Outcome {
					if method == "start" && s.calls.Load() == 1 {
						return actions.Outcome{Kind: actions.NotApplied}
					}
					return applied(ctx, call)
				}
				w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{s}})
				book := &forgetful{after: after}
				map[string]*atomic.Int32{"open": &book.open, "start": &book.startFails, "apply": &book.apply}[method].Store(map[string]int32{"open": 1, "start": 1, "apply": 3}[method])
				r := w.Start(t, func(c *app.Config) { forgets(book)(c); c.LeaseGrace = time.Minute })
				req := stubRequest("test.effect", "key")
				if method == "start" {
					req = apptest.Waiting(req, 0) // what is lost then is found by its lease only
				}
				resp, err := w.Try(t.Context(), r, req)
				if method == "open" {
					st := apptest.WantReason(t, err, codes.Unavailable, "LEDGER_UNAVAILABLE")
					wantPlain(t, st.Err())
					if after { // the row is there, and nobody works on it: doubt, when its lease ends
						resp := w.Ask(t, r, apptest.Waiting(req, 0))
						w.Database.Age(t, w.Held(t, resp.GetOperation().GetId()), time.Hour)
						w.AskIn(t, r, req, needsReview)
						if n := s.calls.Load(); n != 0 {
							t.Errorf("%d calls", n)
						}
						return
					}
					resp, err = w.Try(t.Context(), r, req)
				}
				if err != nil {
					t.Fatal(err)
				}
				id := resp.GetOperation().GetId()
				if method == "start" && after {
					// The second attempt's claim was committed, and its answer lost:
					// nobody sends, and when the lease ends it is doubt.
					op := w.WaitFor(t, "acme", id, ledger.Running)
					for op.Attempt < 2 {
						op = w.WaitFor(t, "acme", id, ledger.Running)
					}
					w.Database.Age(t, op, time.Hour)
					w.WaitFor(t, "acme", id, ledger.NeedsReview)
					w.WantTrail(t, id, "claim defer claim doubt escalate")
					if n := s.calls.Load(); n != 1 {
						t.Errorf("%d calls, want 1", n)
					}
					return
				}
				w.WaitFor(t, "acme", id, ledger.Succeeded)
				want, events := int32(1), "claim confirm"
				if method == "start" {
					want, events = 2, "claim defer claim confirm"
				}
				if n := s.calls.Load(); n != want {
					t.Errorf("%d calls, want %d", n, want)
				}
				w.WantTrail(t, id, events)
			})
		}
	}
}

// A process whose clock is a quarter of a century behind the ledger's, and then
// jumps, neither takes a healthy lease nor misses one that has run out: the
// store asks the database what time it is.
func TestReport29_LeasesByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	store, db := ledgertest.NewStore(t)
	tenant := db.Tenant(t, "acme")
	healthy := ledgertest.InState(t, store, tenant, ledger.Running)
	expired := ledgertest.InState(t, store, tenant, ledger.Running)
	db.Age(t, expired, 2*ledgertest.Lease)
	synctest.Test(t, func(t *testing.T) { // begins in the year 2000
		if now := time.Now(); now.Year() != 2000 {
			t.Fatalf("it is %s", now)
		}
		behind, err := postgres.Open(t.Context(), db.ServeURL)
		if err != nil {
			t.Fatal(err)
		}
		defer behind.Close()
		took, _, err := behind.ExpireLeases(t.Context(), 10)
		if err != nil || len(took) != 1 || took[0].ID != expired.ID {
			t.Errorf("took %v, %v, want the one that has run out", took, err)
		}
		time.Sleep(2 * ledgertest.Lease) // the process's clock alone
		if took, _, err := behind.ExpireLeases(t.Context(), 10); err != nil || len(took) != 0 {
			t.Errorf("took %v, %v after a jump of the clock", took, err)
		}
		op, created, err := behind.Open(t.Context(), ledgertest.Opening(tenant))
		if err != nil || !created || op.LeaseExpiresAt.Sub(healthy.LeaseExpiresAt).Abs() > ledgertest.Lease {
			t.Errorf("a lease from %s ends at %s, one from the right time at %s; %v", time.Now(), op.LeaseExpiresAt, healthy.LeaseExpiresAt, err)
		}
	})
	if got := ledgertest.Get(t, store, healthy); got.State != ledger.Running {
		t.Errorf("the healthy lease was taken: %s", got.State)
	}
}

// The holder dies between its claim and its call. Until its lease has run out
// callers get a hint and no conflict; then another one finishes.
func TestReport13_TakeoverOfADeadHolder(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	child := w.StartChild(t, apptest.ChildOptions{Crash: apptest.AfterClaim, NoReconciler: true})
	if _, err := w.Try(t.Context(), child.Replica, apptest.Refund("ch_1", 500, "run_1")); err == nil {
		t.Fatal("a dead process answered")
	}
	child.WaitExit(t)
	r := w.Start(t, nil)
	for range 3 { // before the lease has run out: a hint, no conflict
		resp := w.AskIn(t, r, apptest.Waiting(apptest.Refund("ch_1", 500, "run_1"), 0), running)
		if resp.GetNextStep().GetKind() != wait || resp.GetNextStep().GetRetryAfter() == nil {
			t.Errorf("next step %v", resp.GetNextStep())
		}
	}
	w.WantEffects(t, 0)
	ops, err := w.Owner().List(t.Context(), "acme", ledger.Filter{}, "", 2)
	if err != nil || len(ops) != 1 {
		t.Fatalf("%d operations, %v", len(ops), err)
	}
	w.Database.Age(t, ops[0], time.Hour)
	w.AskIn(t, r, apptest.Refund("ch_1", 500, "run_1"), succeeded)
	w.WantOneEffect(t, ops[0].ID)
}

// Everything works in the way that a pooler in transaction mode allows, and no
// statement relies on a session.
func TestReport39_NoSessionState(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{})
	r := w.Start(t, func(c *app.Config) {
		separator := "?"
		if strings.Contains(c.DatabaseURL, "?") {
			separator = "&"
		}
		c.DatabaseURL += separator + "default_query_exec_mode=cache_describe"
	})
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying}, fakeprovider.Fault{}, fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	for _, req := range []*oncewardv1.RequestActionRequest{
		apptest.Refund("ch_1", 500, "run_1"), apptest.Refund("ch_2", 500, "run_2"), apptest.Invoice("inv_1"), apptest.Contact("li@example.test"), apptest.Note("n", "run_3"),
	} {
		op := w.AskIn(t, r, req, succeeded).GetOperation()
		w.AskIn(t, r, req, succeeded)
		w.WantOneEffect(t, op.GetId())
	}
	failure := w.AskIn(t, r, apptest.Refund("ch_missing_1", 5, "run_4"), failed).GetOperation()
	if failure.GetFailure().GetCode() == "" {
		t.Errorf("failure %v", failure)
	}
	list, err := r.Actions.ListOperations(apptest.As(t.Context(), w.Agent), &oncewardv1.ListOperationsRequest{
		PageSize: 2, Filter: &oncewardv1.OperationFilter{States: []oncewardv1.OperationState{succeeded, failed}}})
	if err != nil || len(list.GetOperations()) != 2 {
		t.Errorf("list: %v, %v", list, err)
	}
	// Other ways describe a statement on one connection of a pooler and run it on
	// another, or send texts for our types.
	for _, mode := range []string{"describe_exec", "exec", "simple_protocol"} {
		store, err := postgres.Open(t.Context(), w.Database.ServeURL+"&default_query_exec_mode="+mode)
		if err == nil {
			store.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "want cache_describe") {
			t.Errorf("%s: %v, want it refused", mode, err)
		}
	}
}

// No statement, and nothing in the packages that talk to the ledger, uses what
// lives in a session: a pooler gives the next statement to another one.
func TestReport39_StatementsUseNoSession(t *testing.T) {
	t.Parallel()
	session := regexp.MustCompile(`(?i)\b(listen|unlisten|notify|pg_notify|pg_(try_)?advisory_lock\w*|create\s+temp\w*|declare\s+\w+\s+cursor|discard\s+all|prepare\s+\w+\s+as|deallocate)\b|\bset\s+(session|role|search_path)\b|\bset_config\([^)]*false\)`)
	root := filepath.Join("..", "..")
	read := 0
	for _, pattern := range []string{"ledger/postgres/sql/*.sql", "ledger/postgres/*.go", "actions/demo/*.sql", "actions/sqlaction/*.go", "actions/sqlaction/sql/*.sql", "internal/app/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read++
			for n, line := range strings.Split(string(text), "\n") {
				code, _, _ := strings.Cut(line, "--")
				code, _, _ = strings.Cut(code, "//")
				if found := session.FindString(code); found != "" {
					t.Errorf("%s:%d relies on a session: %s", file, n+1, found)
				}
			}
		}
	}
	if read < 30 {
		t.Errorf("only %d files were read: were they moved?", read)
	}
}

func databaseName(t testing.TB, w *apptest.World) string {
	t.Helper()
	var name string
	if err := w.Database.Owner(t).QueryRow(t.Context(), `SELECT quote_ident(current_database())`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

func noActions(t testing.TB) *actions.Registry {
	t.Helper()
	registry, err := actions.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	return registry
}
