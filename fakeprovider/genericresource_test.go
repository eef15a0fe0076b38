package fakeprovider_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

// vouchers is a provider whose writes are PUT and POST, with forms for bodies
// and keys in the query.
func vouchers(change func(*fakeprovider.Options)) fakeprovider.Options {
	text := func(status int, format string, args ...any) fakeprovider.Answer {
		return fakeprovider.Answer{Status: status, Body: fmt.Appendf(nil, format, args...), Header: http.Header{"Content-Type": {"text/plain"}}}
	}
	listed := func(_ *fakeprovider.Call, visible []fakeprovider.Object) (fakeprovider.Answer, bool) {
		ids := make([]string, len(visible))
		for i, o := range visible {
			ids[i] = o.ID
		}
		return text(200, "%s", strings.Join(ids, ",")), len(visible) > 0
	}
	o := fakeprovider.Options{
		BasePath: "/v72",
		Auth: func(c *fakeprovider.Call) *fakeprovider.Answer {
			if c.Header.Get("X-Token") == "good" {
				return nil
			}
			a := text(403, "who are you")
			return &a
		},
		Failure: func(f fakeprovider.Failure) fakeprovider.Answer { return text(f.Status, "sorry: %s", f.Code) },
		Endpoints: []fakeprovider.Endpoint{{Path: "/token", Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			return text(200, "token for %s", c.Body)
		}}},
		Resources: []fakeprovider.Resource{
			{
				Name: "voucher", Method: http.MethodPut, Path: "/shops/{shop}/vouchers/{code}.txt",
				NewID: func(n int) string { return fmt.Sprintf("v%d", n) },
				Read: func(c *fakeprovider.Call) (fakeprovider.Draft, *fakeprovider.Answer) {
					return fakeprovider.Draft{
						NaturalKey: c.Value("shop") + "/" + c.Value("code"), OperationID: c.Query.Get("op"), Unique: c.Query.Get("unique"),
					}, nil
				},
				Keys: fakeprovider.Keys{
					From: func(c *fakeprovider.Call) string { return c.Query.Get("key") }, Window: time.Hour,
					Compare:  func(c *fakeprovider.Call) string { return c.Path + string(c.Body) },
					Mismatch: func(*fakeprovider.Call) fakeprovider.Answer { return text(422, "other") },
					InUse:    func(*fakeprovider.Call) fakeprovider.Answer { return text(423, "busy") },
					Replayed: http.Header{"X-Again": {"yes"}},
				},
				Answer: func(o fakeprovider.Object) fakeprovider.Answer {
					if o.Pending {
						return text(207, "soon")
					}
					return text(200, "%s for %s", o.ID, o.Call.Body)
				},
				Taken: func(_ *fakeprovider.Call, existing fakeprovider.Object) fakeprovider.Answer {
					return text(409, "taken by %s", existing.ID)
				},
				Fault: func(_ *fakeprovider.Call, f fakeprovider.Fault) (fakeprovider.Answer, bool) {
					switch {
					case f.Kind == fakeprovider.RateLimited:
						return fakeprovider.Answer{Status: 403, Body: []byte("slow"), Header: http.Header{"Retry-After": {"9"}}}, true
					case f.Answer == "strange":
						return text(299, "strange"), true
					}
					return fakeprovider.Answer{}, false
				},
				Lookups: []fakeprovider.Lookup{
					{Path: "/list", Lag: time.Minute, Answer: listed},
					{Method: http.MethodPost, Path: "/find", ByID: true, Answer: listed},
					{Path: "/named/{a}", Match: func(c *fakeprovider.Call) bool { return c.Value("a") == "other" }, Answer: listed},
					{Path: "/named/{b}", Answer: func(c *fakeprovider.Call, _ []fakeprovider.Object) (fakeprovider.Answer, bool) {
						return text(200, "a=%s b=%s", c.Value("a"), c.Value("b")), true
					}},
				},
			},
			{
				Name: "gift", Path: "/do", Match: func(c *fakeprovider.Call) bool { return c.Query.Get("what") == "gift" },
				NewID:   func(n int) string { return fmt.Sprintf("g%d", n) },
				Answer:  func(o fakeprovider.Object) fakeprovider.Answer { return text(200, "%s", o.ID) },
				Lookups: []fakeprovider.Lookup{{Path: "/list", Answer: listed}},
			},
			{
				Name: "tip", Path: "/do", Match: func(c *fakeprovider.Call) bool { return c.Query.Get("what") == "tip" },
				Read: func(c *fakeprovider.Call) (fakeprovider.Draft, *fakeprovider.Answer) {
					if len(c.Body) == 0 {
						return fakeprovider.Draft{}, nil
					}
					return fakeprovider.Draft{NewID: func(n int) string { return fmt.Sprintf("%s-%d", c.Body, n) }}, nil
				},
				Answer: func(o fakeprovider.Object) fakeprovider.Answer { return text(200, "%s", o.ID) },
			},
		},
	}
	if change != nil {
		change(&o)
	}
	return o
}

// call sends with the credential of the vouchers.
func (b *bench) call(method, target, body string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.s.URL()+target, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("X-Token", "good")
	return b.do(req)
}

// wantSaid holds an answer against "status text".
func (b *bench) wantSaid(r reply, want string) {
	b.t.Helper()
	if got := fmt.Sprintf("%d %s", r.status, r.body); got != want || r.err != nil {
		b.t.Errorf("got %q (%v), want %q", got, r.err, want)
	}
}

const sale = "/shops/s%2F1/vouchers/c1.txt?op=op1&key=k1"

func TestResourceOfOnesOwn(t *testing.T) {
	b := start(t, vouchers(nil))
	first := b.call(http.MethodPut, sale, "a=1")
	b.wantSaid(first, "200 v1 for a=1")
	again := b.call(http.MethodPut, "/v72"+sale, "a=1")
	b.wantSaid(again, "200 v1 for a=1")
	if first.header.Get("X-Again") != "" || again.header.Get("X-Again") != "yes" || first.header.Get("Content-Type") != "text/plain" {
		t.Errorf("headers %v, %v", first.header, again.header)
	}
	b.wantSaid(b.call(http.MethodPut, sale, "a=2"), "422 other")
	b.wantEffects(1)
	e := b.p.EffectsFor("op1")[0]
	if e.Resource != "voucher" || e.NaturalKey != "s/1/c1" || e.Key != "k1" || string(e.Body) != `"a=1"` {
		t.Errorf("effect %+v", e)
	}
	if n := b.control(http.MethodGet, "/_fake/effects", "")["count"]; n != 1.0 {
		t.Errorf("the control API counts %v", n)
	}
	var kinds []fakeprovider.RequestKind
	for _, r := range b.p.Requests() {
		kinds = append(kinds, r.Kind)
	}
	if !slices.Equal(kinds, []fakeprovider.RequestKind{"write", "write", "write"}) {
		t.Errorf("kinds %v", kinds)
	}
	b.wantSaid(b.call(http.MethodPost, "/v1/refunds", refund("ch_1", "op1")), "404 sorry: unknown_endpoint")
	if r := b.post("/token", "", "me"); string(r.body) != "token for me" {
		t.Errorf("got %v", r)
	}
	b.wantStatus(b.post(sale, "", ""), http.StatusForbidden)
	help := string(b.get("/_fake/").body)
	for _, want := range []string{"PUT    /shops/{shop}/vouchers/{code}.txt", "POST   /find", "/token"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not say %s:\n%s", want, help)
		}
	}
}

func TestResourcesShareAPath(t *testing.T) {
	b := start(t, vouchers(nil))
	b.wantSaid(b.call(http.MethodPost, "/do?what=gift", ""), "200 g1")
	if r := b.call(http.MethodPost, "/do?what=tip", ""); !strings.HasPrefix(string(r.body), "obj_") {
		t.Errorf("got %v", r)
	}
	b.wantSaid(b.call(http.MethodPost, "/do?what=tip", "named"), "200 named-3")
	b.wantSaid(b.call(http.MethodPost, "/do?what=else", ""), "404 sorry: unknown_endpoint")
	b.wantSaid(b.call(http.MethodGet, "/list", ""), "200 g1") // of the second resource: the first has none
	b.wantEffects(3)
	b.p.Reset()
	b.wantSaid(b.call(http.MethodGet, "/list", ""), "200 ")
	b.wantSaid(b.call(http.MethodPost, "/do?what=gift", ""), "200 g4")
}

// Each look-up has the values of its own pattern alone.
func TestValuesOfAPath(t *testing.T) {
	b := start(t, vouchers(nil))
	b.wantSaid(b.call(http.MethodGet, "/named/x%2Fy", ""), "200 a= b=x/y")
	b.wantSaid(b.call(http.MethodGet, "/named/other", ""), "200 a= b=other")
	for _, path := range []string{"/named/", "/named", "/named/x/y", "/shops/s/vouchers/.txt", "/shops//vouchers/c.txt", "/v72"} {
		b.wantStatus(b.call(http.MethodPut, path, ""), http.StatusNotFound)
		b.wantStatus(b.call(http.MethodGet, path, ""), http.StatusNotFound)
	}
}

// A write that gives its key back leaves it to the other one that is executed
// under it.
func TestKeyOfTwoThatAreExecutedAtOnce(t *testing.T) {
	b := start(t, vouchers(func(o *fakeprovider.Options) { o.Resources[0].Keys.InFlight = fakeprovider.InFlightExecutes }))
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: gate}, fakeprovider.Fault{Kind: fakeprovider.ErrorBeforeApplying})
	first := make(chan reply, 1)
	send := func() reply { return b.call(http.MethodPut, "/shops/s/vouchers/c.txt?key=k", "x") }
	go func() { first <- send() }()
	wait(t, gate.Reached(), "the first request at the gate")
	b.wantStatus(send(), http.StatusInternalServerError)
	gate.Release()
	b.wantSaid(<-first, "200 v1 for x")
	b.wantSaid(send(), "200 v1 for x")
	b.wantEffects(1)
}

func TestUniqueValueOfAResource(t *testing.T) {
	b := start(t, vouchers(nil))
	b.wantSaid(b.call(http.MethodPut, "/shops/s/vouchers/a.txt?unique=u", ""), "200 v1 for ")
	b.wantSaid(b.call(http.MethodPut, "/shops/s/vouchers/b.txt?unique=u", ""), "409 taken by v1")
	b.wantEffects(1)
}

func TestFaultsOfAResource(t *testing.T) {
	clock := fakeprovider.NewManualClock(epoch)
	b := start(t, vouchers(func(o *fakeprovider.Options) { o.Clock = clock }))
	send := func(key string) reply {
		return b.call(http.MethodPut, "/shops/s/vouchers/c.txt?key="+key, "x")
	}
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited}, fakeprovider.Fault{Kind: fakeprovider.RateLimited, RetryAfter: time.Minute})
	for _, want := range []string{"9", "60"} {
		r := send("k1")
		b.wantSaid(r, "403 slow")
		if got := r.header.Get("Retry-After"); got != want {
			t.Errorf("Retry-After %q, want %q", got, want)
		}
	}
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.Reject}, fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: "strange"})
	b.wantSaid(send("k1"), "422 sorry: rejected")
	b.wantSaid(send("k1"), "299 strange")
	b.wantEffects(0)
	b.p.Next(fakeprovider.Fault{Kind: fakeprovider.OwnAnswer, Answer: "strange", Apply: true})
	b.wantSaid(send("k2"), "299 strange")
	b.wantSaid(send("k2"), "200 v1 for x") // the success is replayed
	b.wantEffects(1)

	b.control(http.MethodPost, "/_fake/faults", `{"match":{"path":"/shops/","natural_key":"s/c","key":"k3"},"faults":[{"kind":"accepted_202","settle_after":"1m"}]}`)
	b.wantSaid(send("k3"), "207 soon")
	b.wantSaid(send("k3"), "207 soon")
	clock.Advance(time.Minute)
	b.wantSaid(send("k3"), "207 soon") // stored: it does not tell the newest state
	b.wantEffects(2)

	b.wantSaid(b.call(http.MethodGet, "/list", ""), "200 v2,v1")
	b.p.Next(fakeprovider.Fault{DuplicateLookup: true})
	send("k4")
	b.p.Next(fakeprovider.Fault{LookupLag: time.Hour})
	send("k5")
	b.wantSaid(b.call(http.MethodPost, "/find", ""), "200 v4,v3,v2,v1")
	b.wantSaid(b.call(http.MethodGet, "/list", ""), "200 v2,v1")
	clock.Advance(time.Minute)
	b.wantSaid(b.call(http.MethodGet, "/list", ""), "200 v3,v3_again,v2,v1")
	b.p.NextLookup(fakeprovider.Fault{Kind: fakeprovider.RateLimited})
	b.wantSaid(b.call(http.MethodPost, "/find", ""), "403 slow")
}

func TestDuplicateInFlight(t *testing.T) {
	for _, tt := range []struct {
		inFlight fakeprovider.InFlight
		second   string
		effects  int
	}{
		{fakeprovider.InFlightConflict, "423 busy", 1},
		{fakeprovider.InFlightWaits, "200 v1 for x", 1},
		{fakeprovider.InFlightExecutes, "200 v1 for x", 2},
	} {
		b := start(t, vouchers(func(o *fakeprovider.Options) { o.Resources[0].Keys.InFlight = tt.inFlight }))
		gate := fakeprovider.NewGate()
		b.p.Next(fakeprovider.Fault{HoldBefore: gate})
		first, second := make(chan reply, 1), make(chan reply, 1)
		send := func(to chan<- reply) { to <- b.call(http.MethodPut, "/shops/s/vouchers/c.txt?key=k", "x") }
		go send(first)
		wait(t, gate.Reached(), "the first request at the gate")
		go send(second)
		if tt.inFlight == fakeprovider.InFlightWaits {
			if err := b.p.WaitRequests(deadline(t), 2); err != nil {
				t.Fatal(err)
			}
			b.wantEffects(0)
			gate.Release()
		}
		b.wantSaid(<-second, tt.second)
		gate.Release()
		<-first
		b.wantEffects(tt.effects)
		if b.wantStatus(b.call(http.MethodPut, "/shops/s/vouchers/c.txt?key=k", "x"), 200); t.Failed() {
			t.Errorf("with %v", tt.inFlight)
		}
		b.wantEffects(tt.effects)
	}
}

func TestWaitingDuplicateEndsWithTheServer(t *testing.T) {
	b := start(t, vouchers(func(o *fakeprovider.Options) { o.Resources[0].Keys.InFlight = fakeprovider.InFlightWaits }))
	gate := fakeprovider.NewGate()
	b.p.Next(fakeprovider.Fault{HoldBefore: gate})
	ended := make(chan reply, 2)
	send := func() { ended <- b.call(http.MethodPut, "/shops/s/vouchers/c.txt?key=k", "x") }
	go send()
	wait(t, gate.Reached(), "the first request at the gate")
	go send()
	if err := b.p.WaitRequests(deadline(t), 2); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	<-ended
	b.wantEffects(0)
}

func TestResourceThatCannotBePlayed(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a resource without an answer was taken")
		}
	}()
	fakeprovider.New(fakeprovider.Options{Resources: []fakeprovider.Resource{{Name: "x", Path: "/x"}}})
}
