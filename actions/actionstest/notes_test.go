package actionstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/actionstest"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/proof"
)

// notes is the ledger's own database as the target of notes.insert: it cannot
// misbehave for one operation alone.
type notes struct {
	t      *testing.T
	conn   *pgx.Conn
	tenant string
}

var _ proof.Target = notes{}

func (notes) Next(...fakeprovider.Fault) error       { return proof.ErrCannot }
func (notes) NextLookup(...fakeprovider.Fault) error { return proof.ErrCannot }
func (notes) Pending() int                           { return 0 }
func (notes) Pause() error                           { return proof.ErrCannot }
func (notes) Resume() error                          { return proof.ErrCannot }
func (notes) Advance(time.Duration) error            { return proof.ErrCannot }
func (notes) Requests() []proof.Request              { return nil }
func (notes) Quiet(context.Context) error            { return nil }
func (n notes) Close() error                         { return n.conn.Close(context.WithoutCancel(n.t.Context())) }

func (n notes) Effects() []proof.Effect {
	rows, err := n.conn.Query(n.t.Context(), `SELECT operation_id::text FROM demo_notes WHERE tenant_id = $1`, n.tenant)
	if err != nil {
		n.t.Error(err)
		return nil
	}
	effects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[proof.Effect])
	if err != nil {
		n.t.Error(err)
	}
	return effects
}

func TestNotes(t *testing.T) {
	t.Parallel()
	s := proof.Subject{
		Arguments:    example(note),
		Acknowledged: map[string]string{"no_settle_time": "effect and settlement are one transaction"},
		Open: func(ctx context.Context, env proof.Env) (actions.Adapter, proof.Target, error) {
			adapters, err := demo.New(demo.Options{ProviderURL: "http://127.0.0.1:1", Token: "none"})
			if err != nil {
				return nil, nil, err
			}
			conn, err := pgx.Connect(ctx, env.LedgerURL)
			if err != nil {
				return nil, nil, err
			}
			if env.Tenant == "" {
				if _, err := conn.Exec(ctx, demo.NotesTable()); err != nil {
					return nil, nil, err
				}
			}
			return adapters[note], notes{t, conn, env.Tenant}, nil
		},
	}
	report := actionstest.Report(t, s)
	wantProved(t, report)
	proved := 0
	for _, p := range report.Paths {
		if p.Verdict == proof.Safe {
			proved++
		}
	}
	if proved != 5 { // plain, repeated, mismatch, and two kills
		t.Errorf("%d paths were walked, want 5: %+v", proved, report.Paths)
	}
}
