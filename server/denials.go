package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"

	"github.com/onceward/onceward/ledger"
)

// How many refused requests are logged and recorded one by one. Whoever has no
// credential can ask as often as the network lets him, and must fill neither the
// log nor the ledger.
const (
	denialsPerSecond = 5  // of one tenant, and of all strangers together
	denialsAtOnce    = 20 // of the same, after a quiet time
	// Requests of actions are recorded with all that was decided, by those who
	// wait for it: more of them, but a planner in a loop must not fill the ledger.
	requestsPerSecond = 50
	requestsAtOnce    = 1000
	maxDenialQueue    = 256
	denialTimeout     = 5 * time.Second // of writing one
	denialFlush       = 5 * time.Second // how long a count may wait for the next refusal
	// keptBuckets is how many tenants' limits are kept before those are dropped that
	// are as good as new: the ones that nobody used for some seconds. Some 200 bytes
	// each.
	keptBuckets = 4096
)

// denials passes refused requests on: to the log at once, and to the audit record by one
// goroutine, so that a stranger neither waits for the ledger nor learns from the
// time it takes. What is more than the limits is counted, and the number goes
// with the next refusal of the same tenant, or alone. It is safe for concurrent
// use.
type denials struct {
	record func(context.Context, ledger.Denial) error
	log    *slog.Logger
	// metrics is told of credentials that were refused: of each, not only of those
	// that are recorded one by one.
	metrics Metrics
	queue   chan ledger.Denial

	mu sync.Mutex
	// A tenant is here when a credential has proved it, so that there are no more
	// than tenants exist; AllTenants stands for strangers.
	buckets map[denialKey]*denialBucket
	sweepAt int // how many there are when idle ones are dropped
}

// denialKey: requests of actions have a bucket of their own.
type denialKey struct {
	tenant   string
	requests bool
}

type denialBucket struct {
	limit   *rate.Limiter
	skipped int // not recorded one by one
}

func newDenials(record func(context.Context, ledger.Denial) error, log *slog.Logger) *denials {
	return &denials{record: record, log: log, metrics: unmeasured{}, queue: make(chan ledger.Denial, maxDenialQueue), buckets: map[denialKey]*denialBucket{}, sweepAt: keptBuckets}
}

// credential notes a credential that was refused with err.
func (d *denials) credential(ctx context.Context, method string, err error) {
	d.metrics.Unauthenticated(whyUnauthenticated(err))
	denial := ledger.Denial{Tenant: ledger.AllTenants, Verdict: ledger.Verdict{Decision: "deny", Reason: reasonUnauthenticated, Rule: "credential"}}
	if errors.Is(err, ErrTenantInactive) {
		denial.Reason = reasonTenantInactive
	}
	why := "it is unknown"
	var refused *CredentialError
	if errors.As(err, &refused) {
		why, denial.Actor = refused.Why, refused.Actor
		if refused.Tenant != "" {
			denial.Tenant = refused.Tenant
		}
	}
	d.add(ctx, method, why, denial)
}

// role notes a call that was refused because the principal lacks a role.
func (d *denials) role(ctx context.Context, method string, err error) {
	if err == nil {
		return
	}
	var r *refusal
	if !errors.As(err, &r) || r.reason != reasonRoleRequired || errors.As(err, &recordedError{}) {
		return
	}
	p := principalOf(ctx)
	d.add(ctx, method, r.message, ledger.Denial{
		Tenant: p.Tenant, Actor: p.Actor, Verdict: ledger.Verdict{Decision: "deny", Reason: r.reason, Rule: "role"},
	})
}

func (d *denials) add(ctx context.Context, method, why string, denial ledger.Denial) {
	skipped, ok := d.admit(denialKey{tenant: denial.Tenant})
	if !ok {
		return
	}
	method = strings.TrimPrefix(method, "/")
	denial.Detail = method + ": " + why
	d.log.Warn("a request was refused", "reason", denial.Reason, "why", why, "method", method, "tenant", denial.Tenant, "actor", denial.Actor,
		"from", remote(ctx), "refused_since_the_last", skipped)
	if skipped > 0 {
		denial.Detail += "; " + notOneByOne(skipped)
	}
	d.pass(denial, skipped+1)
}

func notOneByOne(n int) string {
	return fmt.Sprintf("%d more were refused before and not recorded one by one", n)
}

// admit says whether a refusal is recorded by itself, and how many were not since
// the last that was.
func (d *denials) admit(key denialKey) (skipped int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.bucket(key)
	if !b.limit.Allow() {
		b.skipped++
		return 0, false
	}
	skipped, b.skipped = b.skipped, 0
	return skipped, true
}

// bucket returns the limit of a tenant. The caller holds mu.
func (d *denials) bucket(key denialKey) *denialBucket {
	if b := d.buckets[key]; b != nil {
		return b
	}
	if len(d.buckets) >= d.sweepAt {
		maps.DeleteFunc(d.buckets, func(_ denialKey, b *denialBucket) bool {
			return b.skipped == 0 && b.limit.Tokens() >= float64(b.limit.Burst())
		})
		d.sweepAt = max(keptBuckets, 2*len(d.buckets))
	}
	b := &denialBucket{limit: rate.NewLimiter(denialsPerSecond, denialsAtOnce)}
	if key.requests {
		b.limit = rate.NewLimiter(requestsPerSecond, requestsAtOnce)
	}
	d.buckets[key] = b
	return b
}

// pass hands a denial to run. n is how many it stands for: they are counted again
// when run is behind.
func (d *denials) pass(denial ledger.Denial, n int) {
	denial.ID = uuid.Must(uuid.NewV7()).String()
	select {
	case d.queue <- denial:
	default:
		d.mu.Lock()
		d.bucket(denialKey{tenant: denial.Tenant}).skipped += n
		d.mu.Unlock()
	}
}

// run records them until ctx ends, and then for what is left.
func (d *denials) run(ctx context.Context) {
	flush := time.NewTicker(denialFlush)
	defer flush.Stop()
	for ctx.Err() == nil { // select alone would go on with the queue as often as not
		select {
		case denial := <-d.queue:
			d.call(ctx, denial)
		case <-flush.C:
			d.flush()
		case <-ctx.Done():
		}
	}
	d.last(ctx)
}

// last passes on what is left, all together in the time of one: the ledger may be
// away.
func (d *denials) last(ctx context.Context) {
	d.flush()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialTimeout)
	defer cancel()
	for len(d.queue) > 0 && ctx.Err() == nil {
		d.write(ctx, <-d.queue)
	}
}

func (d *denials) call(ctx context.Context, denial ledger.Denial) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialTimeout)
	defer cancel()
	d.write(ctx, denial)
}

// write puts a refusal into the audit record. One that cannot be written is a
// refusal all the same.
func (d *denials) write(ctx context.Context, denial ledger.Denial) {
	if err := d.record(ctx, denial); err != nil {
		d.log.Error("a refused request is not in the audit record", "tenant", denial.Tenant, "actor", denial.Actor, "reason", denial.Reason, "error", err)
	}
}

// flush passes on counts that no further refusal took along.
func (d *denials) flush() {
	d.mu.Lock()
	var rest []ledger.Denial
	var counts []int
	for key, b := range d.buckets {
		if b.skipped > 0 {
			rest = append(rest, ledger.Denial{
				Tenant: key.tenant, Verdict: ledger.Verdict{Decision: "deny", Reason: "NOT_RECORDED", Rule: "limit"}, Detail: notOneByOne(b.skipped),
			})
			counts, b.skipped = append(counts, b.skipped), 0
		}
	}
	d.mu.Unlock()
	for i, denial := range rest {
		d.pass(denial, counts[i])
	}
}

// remote is where a call comes from, for the log.
func remote(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}
