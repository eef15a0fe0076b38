package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onceward/onceward/chaos/pgcluster"
	"github.com/onceward/onceward/internal/apptest"
)

// Postgres dies, restarts and fails over to its synchronous standby, twice, under
// load. One replica finds the new primary behind an address that moves, the other
// by trying all of them.
func TestKillPrimaryRestartAndFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgcluster.Options{Standby: true})
	s := onCluster(t, c)
	hosts := c.Address() + "," + c.StandbyAddress()
	replicas := []*apptest.Replica{
		s.replica(t, ""),
		s.replica(t, c.ServeURLAt(hosts)+"&target_session_attrs=read-write&connect_timeout=2"),
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"kill", c.Kill}, {"restart", c.Restart}, {"failover", c.Failover},
	} {
		t.Run(step.name, func(t *testing.T) {
			l := s.begin(t, step.name, 8, replicas...)
			l.wantMore(t, 20)
			if err := step.do(t.Context()); err != nil {
				t.Fatal(err)
			}
			over := time.Now()
			l.wantMore(t, 20)
			l.end()
			s.judge(t, l, over)
			// Both have found it.
			for i, r := range replicas {
				l := s.begin(t, fmt.Sprintf("%s_%d", step.name, i), 2, r)
				l.wantMore(t, 2)
				l.end()
				s.judge(t, l, over)
			}
		})
	}
}
