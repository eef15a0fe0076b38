package campaign

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/chaos/edge"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/crashpoint"
)

// disturbance is a fault that was there from one moment to another.
type disturbance struct {
	Kind     string        `json:"kind"`
	Target   string        `json:"target,omitempty"`
	From, To time.Duration // since the beginning
}

// shock is one fault of the schedule.
type shock struct {
	at     time.Duration
	kind   string
	target int           // a member, of any number
	last   time.Duration // how long it lasts, where that is not its own matter
	coin   int           // for what else there is to choose
}

// monkey breaks things by a schedule. What it breaks it mends.
type monkey struct {
	world *world
	began time.Time
	kinds []string
	stops *stops

	mu      sync.Mutex
	done    []disturbance
	skipped int
	failed  []string // faults that could not be made or mended, and why
}

// atOnce is how many faults there may be at a time: the next one is skipped.
const atOnce = 3

// scheduleOf gives the shocks of a seed, one after the other.
func scheduleOf(seed uint64, kinds []string, gap time.Duration) func() shock {
	r := stream(seed, streamFaults, 0)
	var at time.Duration
	return func() shock {
		at += gap/4 + time.Duration(r.ExpFloat64()*0.75*float64(gap))
		return shock{at: at, kind: kinds[r.IntN(len(kinds))], target: r.IntN(1 << 16), last: lasts(r), coin: r.IntN(1 << 16)}
	}
}

func lasts(r *rand.Rand) time.Duration {
	return 200*time.Millisecond + time.Duration(r.Int64N(int64(2500*time.Millisecond)))
}

// run follows the schedule until ctx ends, and returns when all is mended.
func (m *monkey) run(ctx context.Context) {
	if len(m.kinds) == 0 {
		return
	}
	next := scheduleOf(m.world.Seed, m.kinds, m.world.Gap)
	places := make(chan struct{}, atOnce)
	var under sync.WaitGroup
	defer under.Wait()
	for {
		s := next()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(m.began.Add(s.at))):
		}
		select {
		case places <- struct{}{}:
		default:
			m.skip()
			continue
		}
		under.Go(func() {
			defer func() { <-places }()
			m.shock(ctx, s)
		})
	}
}

func (m *monkey) skip() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skipped++
}

// shock makes one fault and mends it. Mending does not end with ctx.
func (m *monkey) shock(ctx context.Context, s shock) {
	d := disturbance{Kind: s.kind, From: time.Since(m.began)}
	mending := context.WithoutCancel(ctx)
	made := true
	var err error
	family, rest, _ := strings.Cut(s.kind, "_")
	switch {
	case family == "process":
		d.Target, made, err = m.process(mending, s, rest)
	case family == "pg":
		err = m.world.pgBreaks()[s.kind](mending, s)
	case s.kind == "provider_down":
		made = m.providerDown(ctx, s.last)
	case s.kind == "provider_lookups":
		m.badLookups(s)
	case s.kind == "kill_switch":
		made, err = m.stops.stop(ctx, s)
	default:
		d.Target, made, err = m.link(ctx, s, family, rest)
	}
	d.To = time.Since(m.began)
	if err != nil {
		m.world.Log.ErrorContext(ctx, "a fault could not be made or mended", "kind", s.kind, "target", d.Target, "error", err)
		made = false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed = append(m.failed, fmt.Sprintf("%s %s at %s: %v", s.kind, d.Target, d.From.Round(time.Millisecond), err))
	}
	if !made {
		m.skipped++
		return
	}
	m.done = append(m.done, d)
}

// process does something to a replica. Two things at once are not done to one.
func (m *monkey) process(ctx context.Context, s shock, how string) (target string, made bool, err error) {
	member := m.world.members[s.target%len(m.world.members)]
	if !member.busy.TryLock() {
		return member.name, false, nil
	}
	defer member.busy.Unlock()
	if !member.alive() {
		return member.name, false, member.restart(ctx) // it died of something else
	}
	switch how {
	case "kill":
		member.process().Kill()
		return member.name, true, member.restart(ctx)
	case "pause":
		member.process().Pause()
		wait(ctx, pauseTime+s.last)
		member.process().Resume()
		return member.name, true, nil
	case "restart":
		stopping, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		err := member.process().Stop(stopping)
		return member.name, true, cmp.Or(err, member.restart(ctx))
	default:
		died, err := member.crash(ctx, crashpoint.Point(strings.TrimPrefix(how, "crash_")), 4*time.Second)
		return member.name, died, err
	}
}

// link breaks an edge: to the provider, or of one replica to its callers or to
// Postgres, and now and then of all replicas.
func (m *monkey) link(ctx context.Context, s shock, side, how string) (target string, made bool, err error) {
	edges := []*edge.Edge{m.world.toProvider}
	if side != "provider" {
		members := m.world.members
		target = "all"
		if s.coin%4 != 0 {
			members = []*member{members[s.target%len(members)]}
			target = members[0].name
		}
		edges = edges[:0]
		for _, member := range members {
			if x := member.edge(side); x != nil {
				edges = append(edges, x)
			}
		}
	}
	var heals []func()
	defer func() {
		for _, heal := range heals {
			heal()
		}
	}()
	for _, x := range edges {
		heal, err := breakEdge(x, edge.Kind(how), s.coin)
		if err != nil {
			return target, false, err
		}
		heals = append(heals, heal)
	}
	if len(edges) > 0 {
		wait(ctx, s.last)
	}
	return target, len(edges) > 0, nil
}

// providerDown lets every new connection to the provider be refused.
func (m *monkey) providerDown(ctx context.Context, last time.Duration) bool {
	if m.world.server.Pause() != nil {
		return false
	}
	wait(ctx, last)
	return m.world.server.Resume() == nil
}

// badLookups lets the next look-ups at the provider fail.
func (m *monkey) badLookups(s shock) {
	kinds := []fakeprovider.Kind{
		fakeprovider.DropBeforeReading, fakeprovider.ErrorBeforeApplying, fakeprovider.HTML502, fakeprovider.TruncateAnswer,
		fakeprovider.MalformedJSON201, fakeprovider.RateLimited,
	}
	m.world.provider.NextLookup(fakeprovider.Fault{Kind: kinds[s.coin%len(kinds)], Times: 3})
}

// count says how often each kind was made.
func (m *monkey) count() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, d := range m.done {
		counts[d.Kind]++
	}
	return counts
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// shocks are the names of all faults of the schedule that the world can have, sorted.
func (w *world) shocks() []string {
	names := []string{"process_kill", "process_pause", "process_restart", "provider_down", "provider_lookups", "kill_switch"}
	for _, point := range crashpoint.Points() {
		names = append(names, "process_crash_"+string(point))
	}
	for _, kind := range edge.Kinds() {
		names = append(names, "callers_"+string(kind), "provider_"+string(kind), "postgres_"+string(kind))
	}
	names = slices.AppendSeq(names, maps.Keys(w.pgBreaks()))
	slices.Sort(names)
	return names
}

// answersPrefix is before the names of what the provider does about single requests.
const answersPrefix = "answer_"

// lookupsPrefix is before the names of what it did about look-ups.
const lookupsPrefix = "lookup_"

// lookupFaults counts the look-ups that met a fault, by the fault.
func (w *world) lookupFaults() map[string]int {
	counts := map[string]int{}
	for _, r := range w.provider.Requests() {
		if r.Kind == fakeprovider.KindLookup && r.Fault != string(fakeprovider.None) {
			counts[r.Fault]++
		}
	}
	return counts
}

// answers are the kinds of fault that the provider has for single requests.
func answers() []fakeprovider.Kind {
	return slices.DeleteFunc(fakeprovider.Kinds(), func(k fakeprovider.Kind) bool {
		return k == fakeprovider.None || k == fakeprovider.RefuseConnection || k == fakeprovider.OwnAnswer
	})
}

// chosen reports whether a fault is one of those that were asked for.
func chosen(name string, wanted []string) bool {
	if len(wanted) == 0 {
		return true
	}
	return slices.ContainsFunc(wanted, func(w string) bool { return w == "all" || w != "none" && strings.HasPrefix(name, w) })
}

// choose returns the faults of the schedule, and those of single answers, that were
// asked for. A name that is no fault's is an error.
func (w *world) choose() (shocks []string, kinds []fakeprovider.Kind, err error) {
	used := map[string]bool{"all": true, "none": true}
	pick := func(name string) bool {
		for _, wanted := range w.Faults {
			used[wanted] = used[wanted] || strings.HasPrefix(name, wanted)
		}
		return chosen(name, w.Faults)
	}
	for _, name := range w.shocks() {
		if pick(name) {
			shocks = append(shocks, name)
		}
	}
	for _, kind := range answers() {
		if pick(answersPrefix + string(kind)) {
			kinds = append(kinds, kind)
		}
	}
	for _, wanted := range w.Faults {
		if !used[wanted] {
			return nil, nil, fmt.Errorf("no fault's name begins with %q; there are %s*, and %s", wanted, answersPrefix, strings.Join(w.shocks(), ", "))
		}
	}
	return shocks, kinds, nil
}
