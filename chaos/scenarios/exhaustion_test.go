package scenarios

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// Others hold all connections that Postgres gives: nothing is sent, and callers are
// told to come back.
func TestConnectionsExhausted(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, map[string]string{"max_connections": "30"})
	s := newStage(t, newEdges(t), ledgertest.At(t, server.NewDatabase(t, ledgertest.Template())))
	r := s.replica(t, "")
	l := s.begin(t, "exhausted", 4, r)
	l.wantMore(t, 4)

	var hogs []*pgx.Conn
	release := func() {
		for _, conn := range hogs {
			_ = conn.Close(context.WithoutCancel(t.Context()))
		}
		hogs = nil
	}
	t.Cleanup(release)
	// The replica's connections are ended, and each place that is free goes to us. A
	// backend that starts or ends holds a place and is in no view, so that one look
	// proves nothing: it must be so several times in a row, with a request between.
	owner := s.Database.Owner(t)
	const enough = 5
	asked, rounds := 0, 0
	apptest.Eventually(t, func() bool {
		ended, err := owner.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onceward' AND usename = 'onceward_test_serve'`)
		if err != nil {
			t.Fatal(err)
		}
		before := len(hogs)
		for {
			conn, err := pgx.Connect(t.Context(), s.Database.ServeURL+"&application_name=hog")
			if err != nil {
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "53300" {
					t.Fatal(err)
				}
				break
			}
			hogs = append(hogs, conn)
		}
		asked++
		name := fmt.Sprintf("ch_exhausting_%d", asked)
		_, err = s.Try(t.Context(), r, apptest.Refund(name, 500, "run_"+name))
		if ended.RowsAffected() > 0 || len(hogs) > before || apptest.ReasonOf(err) != "LEDGER_UNAVAILABLE" {
			rounds = 0
			return false
		}
		rounds++
		return rounds == enough
	}, func() string { return fmt.Sprintf("the replica has connections; %d are held", len(hogs)) })
	// What was under way at the provider ends; from then on nothing is sent.
	l.wantRefusals(t, 8)
	sent := len(s.Provider.Requests())
	l.wantRefusals(t, 20)
	if now := len(s.Provider.Requests()); now != sent {
		t.Errorf("%d requests were sent without a ledger; %s", now-sent, s.Describe())
	}
	_, err := s.Try(t.Context(), r, apptest.Refund("ch_meanwhile", 500, "run_meanwhile"))
	apptest.WantReason(t, err, codes.Unavailable, "LEDGER_UNAVAILABLE")
	release()
	released := time.Now()
	l.wantMore(t, 4)
	l.end()
	s.judge(t, l, released)
}

// Postgres answers, and slowly: places run out, and who finds none is told to come
// back later.
func TestSlowPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	db := ledgertest.At(t, server.NewDatabase(t, ledgertest.Template()))
	edges := newEdges(t)
	s := newStage(t, edges, db)
	x := openEdge(t, edges, "postgres", hostOf(t, db.ServeURL))
	r := s.Start(t, func(c *app.Config) {
		c.DatabaseURL = withHost(t, db.ServeURL, x.Address())
		c.LeaseGrace, c.ReconcileLease, c.MaxInFlight = 2*time.Second, 2*time.Second, 2
	})
	l := s.begin(t, "slow", 8, r)
	l.wantMore(t, 4)
	heal, err := x.Apply(edge.Fault{Kind: edge.Latency, Delay: 150 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.goOn(80, 4*time.Second)
	l.mu.Lock()
	exhausted := 0
	for what, n := range l.refusals {
		if what == fmt.Sprintf("%s %s", codes.ResourceExhausted, "OVERLOADED") {
			exhausted += n
		}
	}
	l.mu.Unlock()
	if exhausted == 0 {
		t.Errorf("nobody was told that all places are taken: %s", l)
	}
	heal()
	healed := time.Now()
	l.wantMore(t, 4)
	l.end()
	s.judge(t, l, healed)
}
