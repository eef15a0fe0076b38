package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/ledger/ledgertest"
)

// Our own commit is a write whose answer can be lost: of a claim, and of an outcome,
// before it and after it.
func TestConnectionDiesInCommit(t *testing.T) {
	t.Parallel()
	const cuts = 5
	db := ledgertest.NewDatabase(t)
	c := newCutter(t, hostOf(t, db.ServeURL))
	s := newStage(t, newEdges(t), db)
	r := s.replica(t, withHost(t, db.ServeURL, c.address()))
	for _, transaction := range []struct{ name, statement string }{
		{"claim", "INSERT INTO operations"},
		{"outcome", "last_event = n.event, effect = n.effect"}, // change.sql
	} {
		for _, side := range []where{beforeCommit, afterCommit} {
			t.Run(transaction.name+" "+string(side), func(t *testing.T) {
				l := s.begin(t, fmt.Sprintf("%s_%.5s", transaction.name, side), 4, r)
				l.wantMore(t, 4)
				c.arm(side, transaction.statement, cuts)
				apptest.Eventually(t, func() bool { return c.cuts() == cuts }, func() string {
					return fmt.Sprintf("%d of %d cuts; %s", c.cuts(), cuts, l)
				})
				over := time.Now()
				l.wantMore(t, 4)
				l.end()
				s.judge(t, l, over)
			})
		}
	}
}
