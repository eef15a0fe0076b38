//go:build upgrade

package upgrade

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/pgtest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// installation is what both programs share.
type installation struct {
	ownerURL, key string
	provider      *fakeprovider.Provider
	serveArgs     []string
}

// install sets up a ledger with a program, as docs/operations.md says.
func install(t *testing.T, program string) *installation {
	t.Helper()
	in := &installation{provider: fakeprovider.New(fakeprovider.Options{MaxRequests: 1 << 20})}
	in.ownerURL = pgtest.NewDatabase(t, pgtest.Template{Name: "empty", Prepare: func(context.Context, string) error { return nil }})
	server, err := fakeprovider.Start(in.provider, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	database := "--database-url=" + in.ownerURL
	run(t, program, "migrate", database)
	run(t, program, "tenants", "create", "acme", database)
	in.key = strings.TrimSpace(run(t, program, "keys", "create", "acme", "--actor=planner", "--role=agent", database))
	secrets, token := filepath.Join(t.TempDir(), "secrets"), filepath.Join(t.TempDir(), "token")
	run(t, program, "secrets", "create", secrets)
	if err := os.WriteFile(token, []byte(fakeprovider.DefaultToken), 0o600); err != nil {
		t.Fatal(err)
	}
	in.serveArgs = []string{
		database, "--secrets-dir=" + secrets, "--allow-all", "--reconcile-interval=50ms",
		"--demo-provider-url=" + server.URL(), "--demo-provider-token-file=" + token, "--demo-attempt-timeout=5s", "--demo-settle-time=300ms",
	}
	return in
}

// traffic asks for one refund after the other, each of several callers and replicas,
// until it is told to stop. Every key is asked for until it has succeeded.
type traffic struct {
	in    *installation
	mu    sync.Mutex
	to    []*process
	next  int          // the key that comes next
	done  atomic.Int64 // keys that have their receipt
	stop  atomic.Bool
	wrong chan error
}

// use says which replicas are asked from now on.
func (tr *traffic) use(replicas ...*process) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.to = replicas
}

func (tr *traffic) replica(i int) *process {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.to[i%len(tr.to)]
}

// callers work until stop.
func (tr *traffic) callers(ctx context.Context, n int) *sync.WaitGroup {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for !tr.stop.Load() && ctx.Err() == nil {
				tr.mu.Lock()
				key := tr.next
				tr.next++
				tr.mu.Unlock()
				tr.one(ctx, key)
			}
		})
	}
	return &all
}

// one asks for a key from two callers at once, and, some keys later, once more for
// an old one: its receipt must be the same from either program.
func (tr *traffic) one(ctx context.Context, key int) {
	var both sync.WaitGroup
	refs := make([]string, 2)
	for i := range refs {
		both.Go(func() { refs[i] = tr.ask(ctx, key, key+i) })
	}
	both.Wait()
	if refs[0] != refs[1] {
		tr.fault(fmt.Errorf("key %d has two receipts: %v", key, refs))
	}
	if again := tr.ask(ctx, key/2, key/3); again == "" && ctx.Err() == nil {
		tr.fault(fmt.Errorf("key %d has no receipt any more", key/2))
	}
	tr.done.Add(1)
}

func (tr *traffic) fault(err error) {
	select {
	case tr.wrong <- err:
	default:
	}
}

func (tr *traffic) ask(ctx context.Context, key, at int) string {
	for try := 0; ctx.Err() == nil; try++ {
		p := tr.replica(at + try)
		resp, err := p.actions.RequestAction(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tr.in.key), &oncewardv1.RequestActionRequest{
			ActionType: "payments.refund.create",
			ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{
				ArgumentsJson: fmt.Sprintf(`{"charge_id":"ch_%d","amount":5,"currency":"usd"}`, key)},
			Run: &oncewardv1.RunContext{RunId: fmt.Sprintf("run_%d", key), StepId: "refund"}, Wait: durationpb.New(2 * time.Second),
		})
		switch {
		case err == nil && resp.GetOperation().GetState() == oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED:
			return resp.GetOperation().GetId() + " " + resp.GetOperation().GetReceipt().GetProviderReference()
		case err == nil && resp.GetOperation().GetState() == oncewardv1.OperationState_OPERATION_STATE_FAILED:
			tr.fault(fmt.Errorf("key %d at %s: %v", key, p.name, resp.GetOperation().GetFailure()))
			return ""
		case err != nil && status.Code(err) != codes.Unavailable && ctx.Err() == nil:
			tr.fault(fmt.Errorf("key %d at %s: %w", key, p.name, err))
			return ""
		case err != nil: // nothing was claimed, or nobody knows: the same key again
			pause := time.NewTimer(20 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	}
	return ""
}

// more waits until so many further keys have their receipt.
func (tr *traffic) more(t *testing.T, n int64) {
	t.Helper()
	want := tr.done.Load() + n
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for tr.done.Load() < want {
		select {
		case err := <-tr.wrong:
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("only %d of %d keys came through", tr.done.Load(), want)
		case <-tick.C:
		}
	}
}

// An installation is upgraded under load: the new program migrates while the old one
// serves, joins it, and stays alone. Every key has one effect and one receipt, the
// same from both, nothing is lost and nothing is stuck.
func TestRollingUpgrade(t *testing.T) {
	began := time.Now()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	before, after := build(t, former(t, root), "before"), build(t, root, "after")
	t.Logf("both are built after %s", time.Since(began).Round(time.Second))
	in := install(t, before)
	a, b := serve(t, before, "before-1", in.serveArgs...), serve(t, before, "before-2", in.serveArgs...)
	tr := &traffic{in: in, wrong: make(chan error, 1)}
	tr.use(a, b)
	// Some writes go wrong for the whole time, so that doubt is handed from one program
	// to the other.
	in.provider.ForMatch(sometimes(), fakeprovider.Fault{Kind: fakeprovider.DropAnswerAfterApplying, Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	callers := tr.callers(ctx, 24)
	defer func() { tr.stop.Store(true); cancel(); callers.Wait() }()

	const some = 100
	tr.more(t, some)
	run(t, after, "migrate", "--database-url="+in.ownerURL)
	tr.more(t, some) // the old program on the new schema
	c, d := serve(t, after, "after-1", in.serveArgs...), serve(t, after, "after-2", in.serveArgs...)
	tr.use(a, c, b, d)
	tr.more(t, some)
	a.stop(t)
	tr.use(b, c, d)
	tr.more(t, some)
	b.stop(t)
	tr.use(c, d)
	tr.more(t, some)
	tr.stop.Store(true)
	callers.Wait()
	select {
	case err := <-tr.wrong:
		t.Fatal(err)
	default:
	}
	wantSound(t, in, tr.next)
}

// sometimes matches one write in thirty.
func sometimes() fakeprovider.Predicate {
	var n atomic.Int64
	return func(r *http.Request, _ []byte) bool { return r.Method == http.MethodPost && n.Add(1)%30 == 0 }
}

// wantSound fails the test unless each of the keys has one effect and one operation
// that has succeeded, and nothing else is there.
func wantSound(t *testing.T, in *installation, keys int) {
	t.Helper()
	effects := map[string]int{}
	for _, e := range in.provider.Effects() {
		effects[e.OperationID]++
	}
	for id, n := range effects {
		if n != 1 {
			t.Errorf("operation %s has %d effects", id, n)
		}
	}
	if n := len(in.provider.Effects()); n != keys {
		t.Errorf("the target holds %d effects of %d keys", n, keys)
	}
	conn, err := pgx.Connect(t.Context(), in.ownerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for query, want := range map[string]int{
		`SELECT count(*) FROM operations WHERE status = 'succeeded'`:   keys,
		`SELECT count(*) FROM operations WHERE status <> 'succeeded'`:  0,
		`SELECT count(*) FROM attempts WHERE ended_at IS NULL`:         0,
		`SELECT count(*) FROM audit_events WHERE event = 'contradict'`: 0,
		`SELECT count(*) FROM operations o WHERE status IS DISTINCT FROM (SELECT to_status FROM audit_events e
			WHERE e.tenant_id = o.tenant_id AND e.operation_id = o.id ORDER BY sequence DESC LIMIT 1)`: 0,
	} {
		var got int
		if err := conn.QueryRow(t.Context(), query).Scan(&got); err != nil {
			t.Errorf("%s: %v", query, err)
		} else if got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	t.Logf("%d keys, one effect each", keys)
}
