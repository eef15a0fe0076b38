package scenarios

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/pgcluster"
	"github.com/onceward/onceward/internal/apptest"
)

// PgBouncer in transaction mode, with the setting of docs/operations.md. It is
// killed, and then Postgres behind it.
func TestPooler(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgcluster.Options{Pooler: true})
	s := onCluster(t, c)
	url := c.ServeURLAt(c.PoolerAddress()) + "&default_query_exec_mode=cache_describe"
	replicas := []*apptest.Replica{s.replica(t, url), s.replica(t, url)}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"pooler", c.RestartPooler}, {"postgres", c.Kill}} {
		t.Run(step.name, func(t *testing.T) {
			l := s.begin(t, step.name, 8, replicas...)
			l.wantMore(t, 40)
			if err := step.do(t.Context()); err != nil {
				t.Fatal(err)
			}
			over := time.Now()
			l.wantMore(t, 40)
			l.end()
			s.judge(t, l, over)
		})
	}
}
