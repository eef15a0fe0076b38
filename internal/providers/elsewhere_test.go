package providers_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/internal/providers"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// points is an adapter in a process of its own, as far as Onceward can see.
type points struct {
	oncewardv1.UnimplementedAdapterServiceServer

	executed atomic.Int64
}

func (*points) Describe(context.Context, *oncewardv1.DescribeRequest) (*oncewardv1.DescribeResponse, error) {
	return &oncewardv1.DescribeResponse{ActionTypes: []*oncewardv1.ActionTypeDescription{{
		Name: "points.grant", Version: "1", Description: "Grant points.", Owner: "loyalty", Risk: oncewardv1.Risk_RISK_LOW,
		ArgumentsSchemaJson: `{"type":"object","additionalProperties":false,"required":["entry"],"properties":{"entry":{"type":"string"}}}`,
		Contract:            &oncewardv1.AdapterContract{Provider: "points", Version: "1"},
	}}}, nil
}

func (p *points) Execute(context.Context, *oncewardv1.ExecuteRequest) (*oncewardv1.ExecuteResponse, error) {
	n := p.executed.Add(1)
	return &oncewardv1.ExecuteResponse{Outcome: &oncewardv1.Outcome{
		Kind:    oncewardv1.OutcomeKind_OUTCOME_KIND_APPLIED,
		Receipt: &oncewardv1.Receipt{ProviderReference: fmt.Sprintf("pt_%d", n), Json: `{"granted":true}`},
	}}, nil
}

// serve runs the adapter, and returns how to stop it.
func (p *points) serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	oncewardv1.RegisterAdapterServiceServer(server, p)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	stop = func() { server.Stop(); serving.Wait() }
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

const entryAction = `kind: action
type: %[1]s.entry.create
version: "1"
provider: %[1]s
description: Write an entry.
arguments:
  type: object
  additionalProperties: false
  required: [entry]
  properties:
    entry: {type: string, maxLength: 40}
statement:
  sql: |
    INSERT INTO public.entries (operation_id, entry) VALUES ($1, $2)
    RETURNING id::text AS reference, json_build_object('entry', entry) AS receipt
  parameters: [operation.id, args.entry]
examples:
  - arguments: {entry: one}
`

const entriesTable = `CREATE TABLE public.entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, operation_id uuid NOT NULL, entry text NOT NULL)`

// TestProvidersElsewhere requests actions of an adapter in another process, of a
// database of others and of the ledger's own, all of them from files: each is
// registered, executed once, and answers a duplicate with its receipt.
func TestProvidersElsewhere(t *testing.T) {
	adapter := &points{}
	address, stop := adapter.serve(t)
	books := pgtest.NewDatabase(t, pgtest.Template{})
	connection, err := pgx.Connect(t.Context(), books)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	if _, err := connection.Exec(t.Context(), entriesTable); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BOOKS_URL", books)
	f := &folder{t, t.TempDir()}
	f.write("points.yaml", fmt.Sprintf("kind: provider\nname: points\nversion: \"1\"\nadapter: grpc\ngrpc: {address: %q, plain_text: true}\noperation_token: {audience: points}\nbreaker: {failures: 7}\n", address))
	f.write("books.yaml", "kind: provider\nname: books\nversion: \"1\"\nadapter: sql\nsql: {url: {env: BOOKS_URL}, create_table: true}\n")
	f.write("own.yaml", "kind: provider\nname: own\nversion: \"1\"\nadapter: sql\nsql: {ledger: true}\n")
	f.write("books.entry.create.yaml", fmt.Sprintf(entryAction, "books"))
	f.write("own.entry.create.yaml", fmt.Sprintf(entryAction, "own"))
	log := &notes{}
	p, err := providers.Open(t.Context(), providers.Options{
		Paths: []string{f.dir}, Log: slog.New(slog.NewTextHandler(log, nil)), StartTimeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)

	if a, ok := p.Registry().Get("points.grant"); !ok || a.Spec.TokenAudience != "points" || a.Spec.Contract.Protection.Failures != 7 {
		t.Errorf("what the file says of the adapter is not in %+v", a)
	}

	w := apptest.New(t, apptest.Options{})
	w.Database.Exec(t, entriesTable+`; GRANT SELECT, INSERT ON public.entries TO onceward_serve`)
	onceward := w.Start(t, func(c *app.Config) { c.Registry = p.Registry() })
	for actionType, count := range map[string]func() int{
		"points.grant": func() int { return int(adapter.executed.Load()) },
		"books.entry.create": func() (n int) {
			if err := connection.QueryRow(t.Context(), `SELECT count(*) FROM entries`).Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		},
		"own.entry.create": func() (n int) { return countEntries(t, w.Database.OwnerURL) },
	} {
		request := apptest.Waiting(&oncewardv1.RequestActionRequest{
			ActionType:    actionType,
			ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: `{"entry":"one"}`},
			Run:           &oncewardv1.RunContext{RunId: "run_1", StepId: "entry"},
		}, apptest.Patience)
		first := w.AskIn(t, onceward, request, oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
		again := w.AskIn(t, onceward, proto.CloneOf(request), oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED)
		if was, is := first.GetOperation().GetReceipt(), again.GetOperation().GetReceipt(); was.GetJson() == "" || !again.GetReplayed() || !proto.Equal(was, is) {
			t.Errorf("%s: receipts %v and %v", actionType, was, is)
		}
		if n := count(); n != 1 {
			t.Errorf("%s: executed %d times", actionType, n)
		}
	}

	// A statement that the database refuses is refused with its place.
	f.change("books.entry.create.yaml", "public.entries", "public.nowhere")
	err = p.Reload(t.Context())
	if want := filepath.Join(f.dir, "books.entry.create.yaml") + ":13:3: statement: "; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"public.nowhere" does not exist`) {
		t.Errorf("got %v, want %s", err, want)
	}
	f.change("books.entry.create.yaml", "public.nowhere", "public.entries")

	// An adapter that is away holds up nobody else, and keeps what it has.
	stop()
	f.change("own.entry.create.yaml", `version: "1"`, `version: "2"`)
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, ok := p.Registry().Get("own.entry.create"); !ok || a.Spec.Version != "2" {
		t.Error("the change was not taken over")
	}
	if _, ok := p.Registry().Get("points.grant"); !ok {
		t.Error("the action of the adapter that is away is gone")
	}
	if !strings.Contains(log.String(), `msg="a provider does not answer: what it described last stays" provider=points`) {
		t.Errorf("no warning: %s", log)
	}
}

func countEntries(t *testing.T, database string) (n int) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	if err := connection.QueryRow(t.Context(), `SELECT count(*) FROM public.entries`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
