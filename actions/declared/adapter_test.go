package declared_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
)

// A limit that the provider told holds up all actions of the connection: nothing
// is sent, and the outcome says when to come again.
//
// PROVIDERS requirement 26
func TestRateLimitIsShared(t *testing.T) {
	t.Parallel()
	now := newClock()
	p := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 0 {
			write(w, 429, http.Header{"Retry-After": {"20"}}, `{}`)
			return
		}
		write(w, 200, nil, `{"id":"r1","amount":1}`)
	})
	definitionOf, first := load(t, providerHead, actionHead+refund)
	o := options(p.URL)
	o.Now = now.Now
	conn, err := declared.NewConnection(definitionOf, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	second := *first
	second.Type = "acme.credit.create"
	a, err := declared.HTTP(conn, first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := declared.HTTP(conn, &second)
	if err != nil {
		t.Fatal(err)
	}
	if o := a.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.RateLimited || o.RetryAfter != 20*time.Second {
		t.Errorf("%+v", o)
	}
	now.advance(5 * time.Second)
	if o := b.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.RateLimited || o.RetryAfter != 15*time.Second || len(p.requests()) != 1 {
		t.Errorf("%+v after %d requests", o, len(p.requests()))
	}
	now.advance(15 * time.Second)
	if o := b.Execute(t.Context(), call(t, theArgs)); o.Kind != actions.Applied {
		t.Errorf("%+v", o)
	}
}

// The contract says what the files say, and the careful thing where they say
// nothing.
//
// PROVIDERS requirements 8, 22, 29
func TestSpec(t *testing.T) {
	t.Parallel()
	bare := build(t, "", providerHead, actionHead+refund)
	spec := bare.Spec()
	if k := spec.Contract.Keys; k != (actions.KeyRules{}) || spec.Contract.Lookup != (actions.LookupRules{}) {
		t.Errorf("%+v", spec.Contract)
	}
	if _, ok := bare.(actions.Looker); ok {
		t.Error("it looks up, and has no look-ups")
	}
	if spec.Version != "3" || spec.Contract.Version != "7" || spec.Contract.Provider != "acme" || spec.ExpiredKey != actions.Reject {
		t.Errorf("%+v", spec)
	}
	full := build(t, "", providerHead+`
keys: {place: header, name: K, window: 24h, max_length: 64}
late_landing: 5m
webhooks:
  verify: {scheme: github, secrets: [{env: W}]}
  wait: 1h
  events: [{if: "true", id: event.id, operation: event.op, is: accepted}]
`, actionHead+refund+`
owner: payments
risk: high
key: {parts: [{name: tenant, from: tenant}, {name: charge, from: arguments.charge}], hashed: true}
advisory_args: [note]
approval: {required: true, ttl: 1h}
timeout: 40s
max_attempts: 3
max_resolves: 9
window: 10d
expired_key: reuse
lookups:
  - {name: a, request: {method: GET, path: /a}, items: body.a, match: "true", strength: strong, absence: {settle_time: 1m, reads: 4}}
  - {name: b, request: {method: GET, path: /b}, items: body.a, match: "true", strength: strong, absence: {settle_time: 5m, gap: 9s}}
`)
	if _, ok := full.(actions.Looker); !ok {
		t.Error("it does not look up")
	}
	spec = full.Spec()
	want := actions.Contract{
		Provider: "acme", Version: "7", LateLanding: 5 * time.Minute, EventWait: time.Hour,
		Keys:   actions.KeyRules{Honoured: true, MaxLength: 64, Window: 24 * time.Hour, Margin: time.Hour, StoresFailures: true, InFlight: time.Minute},
		Lookup: actions.LookupRules{Authoritative: true, SettleTime: 5 * time.Minute, NegativeReads: 4, ReadGap: 9 * time.Second},
	}
	if spec.Contract != want {
		t.Errorf("got  %+v\nwant %+v", spec.Contract, want)
	}
	if spec.Owner != "payments" || spec.Risk != actions.RiskHigh || !spec.HashKey || len(spec.Key) != 2 || spec.Key[1].From != "arguments.charge" ||
		!spec.RequiresApproval || spec.ApprovalTTL != time.Hour || spec.Timeout != 40*time.Second || spec.MaxAttempts != 3 ||
		spec.MaxResolves != 9 || spec.Window != 240*time.Hour || spec.ExpiredKey != actions.Reuse || len(spec.AdvisoryArgs) != 1 {
		t.Errorf("%+v", spec)
	}
	if _, err := actions.NewRegistry(bare); err != nil {
		t.Error(err)
	}
}

// What a provider does with keys decides what they are worth.
func TestKeyRules(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]actions.KeyRules{
		"{place: header, name: K}": {}, // unpublished window
		"{place: none}":            {},
		"{place: header, name: K, window: 1h, stores: successes}":                             {Honoured: true, Window: time.Hour, Margin: 3 * time.Minute, InFlight: time.Minute},
		"{place: header, name: K, window: 1h, stores: latest, margin: 10m, in_flight: waits}": {Honoured: true, Window: time.Hour, Margin: 10 * time.Minute},
		"{place: header, name: K, window: 1h, stores: unknown, in_flight_time: 5m}":           {Honoured: true, Window: time.Hour, Margin: 3 * time.Minute, StoresFailures: true, InFlight: 5 * time.Minute},
		"{place: header, name: K, window: 30d, stores: everything, in_flight: conflict}":      {Honoured: true, Window: 720 * time.Hour, Margin: time.Hour, StoresFailures: true},
	} {
		if got := build(t, "", providerHead, actionHead+refund+"keys: "+keys).Spec().Contract.Keys; got != want {
			t.Errorf("%s: got %+v, want %+v", keys, got, want)
		}
	}
	// An action takes back what its provider says.
	a := build(t, "", providerHead+"keys: {place: header, name: K, window: 1h}", actionHead+refund+"keys: {place: none}")
	if got := a.Spec().Contract.Keys; got != (actions.KeyRules{}) {
		t.Errorf("%+v", got)
	}
}
