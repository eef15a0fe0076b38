package fakeprovider

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxBody is how many bytes of a request's body the provider takes.
const maxBody = 1 << 20

// exchange is one request on its way through the provider.
type exchange struct {
	p     *Provider
	w     *world
	rw    http.ResponseWriter
	r     *http.Request
	call  *Call
	to    destination
	key   string
	draft Draft   // of a write
	bad   *Answer // why the draft is invalid
	fault Fault
	own   *Answer // the fault's error answer, where it has one
	rec   *Request
}

// serve takes a request in, gives it its fault, and works on it.
func (p *Provider) serve(rw http.ResponseWriter, r *http.Request) {
	x := &exchange{p: p, w: p.current(), rw: rw, r: r}
	body, readErr := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	x.read(body)
	sum := sha256.Sum256(body)
	x.rec = x.w.log.arrive(Request{
		At: p.opts.Clock.Now(), Kind: x.to.kind(), Method: r.Method, Target: x.call.Target, Key: x.key,
		BodySHA256:  hex.EncodeToString(sum[:]),
		OperationID: x.draft.OperationID, NaturalKey: x.draft.NaturalKey, Fault: string(None),
	})
	p.changed.ring()
	defer func() {
		x.w.log.finish(x.rec)
		p.changed.ring()
	}()

	var tooLarge *http.MaxBytesError
	switch {
	case readErr != nil && !errors.As(readErr, &tooLarge):
		x.cut() // the client left in the middle of its body
	case readErr != nil:
		x.write(x.failure(http.StatusRequestEntityTooLarge, "invalid_request_error", "body_too_large", "The body is longer than 1 MiB."))
	case x.to.endpoint != nil:
		x.write(x.to.endpoint.Answer(x.call))
	default:
		if refusal := p.auth(x.call); refusal != nil {
			x.write(*refusal)
			return
		}
		x.takeFault()
		x.act()
	}
}

// read finds out what the request is.
func (x *exchange) read(body []byte) {
	x.to = x.p.route(&Call{
		Method: x.r.Method, Path: x.p.withoutBase(x.r.URL.Path), Target: x.r.URL.RequestURI(),
		Query: x.r.URL.Query(), Header: x.r.Header, Body: body,
	}, x.r.URL.EscapedPath())
	x.call = x.to.call
	x.key = headerKey(x.call)
	res := x.to.write
	if res == nil {
		return
	}
	if res.Keys.From != nil {
		x.key = res.Keys.From(x.call)
	}
	if res.Read != nil {
		x.draft, x.bad = res.Read(x.call)
	}
}

func (p *Provider) auth(c *Call) *Answer {
	if p.opts.Auth != nil {
		return p.opts.Auth(c)
	}
	if c.Header.Get("Authorization") == "Bearer "+p.opts.Token {
		return nil
	}
	a := p.opts.Failure(Failure{http.StatusUnauthorized, "authentication_error", "bad_token", "The bearer token is missing or wrong."})
	return &a
}

func (x *exchange) takeFault() {
	x.fault = x.w.script.take(arrival{r: x.r, body: x.call.Body, kind: x.to.kind(), naturalKey: x.draft.NaturalKey, key: x.key})
	x.own = x.failed()
	x.w.log.update(x.rec, func(rec *Request) { rec.Fault = x.fault.String() })
}

func (x *exchange) act() {
	switch x.to.kind() {
	case KindWrite:
		x.perform(x.to.write)
	case KindLookup:
		x.look(x.find)
	case KindOther:
		x.look(func() Answer {
			return x.failure(http.StatusNotFound, "invalid_request_error", "unknown_endpoint", "There is nothing at this method and path.")
		})
	}
}

// failure is an error answer in the provider's shape.
func (x *exchange) failure(status int, kind, code, message string) Answer {
	return x.p.opts.Failure(Failure{status, kind, code, message})
}

// perform runs a write: key, waits, execution, answer.
func (x *exchange) perform(res *Resource) {
	a, fresh, here := x.admit(res)
	if !here || !x.before() {
		if fresh && x.usesKey(res) {
			x.w.keys.forget(&res.Keys, x.key)
		}
		x.cut()
		return
	}
	if fresh {
		a = x.execute(res)
	}
	if !x.after() {
		x.cut()
		return
	}
	x.send(a)
}

func (x *exchange) usesKey(res *Resource) bool {
	return res.Keys.From != nil && x.key != "" && !res.Keys.Ignored
}

// admit says whether the write is to be executed; if not, the answer. It
// returns here as false where the request must be given up.
func (x *exchange) admit(res *Resource) (a Answer, fresh, here bool) {
	switch {
	case !x.fault.executes():
		return Answer{}, false, true // send makes the fault's own answer
	case x.bad != nil:
		return *x.bad, false, true
	case !x.usesKey(res):
		return Answer{}, true, true
	}
	if res.Keys.Refuse != nil {
		if refusal := res.Keys.Refuse(x.key); refusal != nil {
			return *refusal, false, true
		}
	}
	compared := ""
	if res.Keys.Compare != nil {
		compared = res.Keys.Compare(x.call)
	}
	for {
		v := x.w.keys.begin(&res.Keys, x.key, compared, x.p.opts.Clock.Now())
		switch v.is {
		case keyFresh:
			return Answer{}, true, true
		case keyReplay:
			return x.replay(res, v.stored), false, true
		case keyMismatch:
			if res.Keys.Mismatch != nil {
				return res.Keys.Mismatch(x.call), false, true
			}
			return x.failure(http.StatusBadRequest, "idempotency_error", "idempotency_key_reused",
				"The idempotency key was used with another body."), false, true
		case keyInFlight:
			switch {
			case res.Keys.InFlight == InFlightWaits:
				if !receive(x, v.over) {
					return Answer{}, false, false
				}
			case res.Keys.InUse != nil:
				return res.Keys.InUse(x.call), false, true
			default:
				return x.failure(http.StatusConflict, "idempotency_error", "idempotency_key_in_use",
					"A request with this idempotency key is being worked on."), false, true
			}
		}
	}
}

func (x *exchange) replay(res *Resource, s stored) Answer {
	a := s.answer
	if s.pending != nil && res.Keys.Latest {
		a = res.Answer(s.pending.at(x.p.opts.Clock.Now()))
	}
	header := a.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for name, values := range res.Keys.Replayed {
		header[name] = values
	}
	a.Header = header
	x.w.log.update(x.rec, func(rec *Request) { rec.Replayed = true })
	return a
}

// execute applies the write unless the fault or the data say no, and settles
// its key. It returns the answer that a healthy provider would give.
func (x *exchange) execute(res *Resource) Answer {
	s, applied := x.attempt(res)
	if !x.usesKey(res) {
		return s.answer
	}
	kept := s
	if x.own != nil && res.Keys.StoreFailures {
		kept = stored{answer: *x.own}
	}
	if applied || res.Keys.StoreFailures {
		x.w.keys.settle(&res.Keys, x.key, kept)
	} else {
		x.w.keys.forget(&res.Keys, x.key)
	}
	return s.answer
}

func (x *exchange) attempt(res *Resource) (s stored, applied bool) {
	if !x.fault.applies() {
		return stored{answer: *x.own}, false
	}
	if res.Refuse != nil {
		if refusal := res.Refuse(x.call, x.draft); refusal != nil {
			return stored{answer: *refusal}, false
		}
	}
	o, isNew := x.w.store.apply(x.object(res), func() (string, int) { return x.p.newID(res, x.draft) })
	if !isNew {
		return stored{answer: x.taken(res, o)}, false
	}
	x.w.log.update(x.rec, func(rec *Request) { rec.EffectID = o.effect.ID })
	x.p.changed.ring()
	seen := o.made
	seen.Pending = x.fault.kind() == Accepted202
	s.answer = res.Answer(seen)
	if seen.Pending {
		s.pending = o
	}
	return s, true
}

func (x *exchange) taken(res *Resource, existing *object) Answer {
	if res.Taken != nil {
		return res.Taken(x.call, existing.at(x.p.opts.Clock.Now()))
	}
	return x.failure(http.StatusConflict, "invalid_request_error", "already_exists", "There is such an object already.")
}

func (p *Provider) newID(res *Resource, d Draft) (string, int) {
	n := int(p.made.Add(1))
	switch {
	case d.NewID != nil:
		return d.NewID(n), n
	case res.NewID != nil:
		return res.NewID(n), n
	}
	return "obj_" + strings.ToLower(rand.Text()[:20]), n
}

func (x *exchange) object(res *Resource) *object {
	now := x.p.opts.Clock.Now()
	o := &object{
		made: Object{At: now, Key: x.key, Call: x.call, Draft: x.draft},
		lag:  x.fault.LookupLag, settlesAt: now, twice: x.fault.DuplicateLookup,
		effect: Effect{
			Resource: res.Name, At: now, OperationID: x.draft.OperationID, NaturalKey: x.draft.NaturalKey,
			Key: x.key, Request: x.rec.Number, Attempt: x.rec.Attempt, Body: asJSON(x.call.Body),
		},
	}
	if x.fault.kind() == Accepted202 {
		o.settlesAt = now.Add(x.fault.SettleAfter)
	}
	return o
}

// find asks the look-ups at this path in order. The first that finds something
// answers; if none does, the first.
func (x *exchange) find() Answer {
	now := x.p.opts.Clock.Now()
	var nothing Answer
	for i, l := range x.to.lookups {
		a, found := l.Answer(l.call, x.w.store.visible(l.of.Name, l.Lookup, now))
		if found {
			return a
		}
		if i == 0 {
			nothing = a
		}
	}
	return nothing
}

// look runs a look-up: waits, read, answer.
func (x *exchange) look(read func() Answer) {
	if !x.before() {
		x.cut()
		return
	}
	a := read()
	if !x.after() {
		x.cut()
		return
	}
	x.send(a)
}

// before and after are the fault's waits. They return false when the server
// closes or the provider is reset, and the request must be given up.
func (x *exchange) before() bool {
	delay := x.fault.Delay
	if x.fault.kind() == DelayAfterApplying {
		delay = 0
	}
	return x.wait(x.fault.HoldBefore, delay)
}

func (x *exchange) after() bool {
	var delay time.Duration
	if x.fault.kind() == DelayAfterApplying {
		delay = x.fault.Delay
	}
	return x.wait(x.fault.HoldAfter, delay)
}

func (x *exchange) wait(gate *Gate, delay time.Duration) bool {
	if gate != nil && !receive(x, gate.arrive()) {
		return false
	}
	return delay == 0 || receive(x, x.p.opts.Clock.After(delay))
}

// receive waits for ch, for the server's end or for a reset. It does not end
// when the client leaves: a real provider works on.
func receive[T any](x *exchange, ch <-chan T) bool {
	select {
	case <-ch:
		return true
	case <-x.w.ended:
	case <-serverDone(x.r.Context()):
	}
	return false
}
