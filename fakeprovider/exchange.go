package fakeprovider

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
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
	body  []byte
	sha   string
	key   string
	draft draft   // of a write
	bad   *answer // why the draft is invalid
	fault Fault
	rec   *Request
}

// serve takes a request in, gives it its fault, and lets act work on it.
func (p *Provider) serve(rw http.ResponseWriter, r *http.Request, res *resource, act func(*exchange)) {
	x := &exchange{p: p, w: p.current(), rw: rw, r: r, key: r.Header.Get("Idempotency-Key")}
	body, readErr := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	sum := sha256.Sum256(body)
	x.body, x.sha = body, hex.EncodeToString(sum[:])
	if res != nil {
		x.draft, x.bad = res.read(body)
	}
	x.rec = x.w.log.arrive(Request{
		At: p.opts.Clock.Now(), Method: r.Method, Target: r.URL.RequestURI(), Key: x.key, BodySHA256: x.sha,
		OperationID: x.draft.operationID, NaturalKey: x.draft.naturalKey, Fault: string(None),
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
		x.write(failure(http.StatusRequestEntityTooLarge, "invalid_request_error", "body_too_large",
			"The body is longer than 1 MiB."))
	case r.Header.Get("Authorization") != "Bearer "+p.opts.Token:
		x.write(failure(http.StatusUnauthorized, "authentication_error", "bad_token", "The bearer token is missing or wrong."))
	default:
		x.fault = x.w.script.take(r, body)
		x.w.log.update(x.rec, func(rec *Request) { rec.Fault = x.fault.String() })
		act(x)
	}
}

// perform runs a write: key, waits, execution, answer.
func (x *exchange) perform(res *resource) {
	a, fresh := x.admit(res)
	if !x.before() {
		if fresh && x.usesKey(res) {
			x.w.keys.forget(x.key)
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

func (x *exchange) usesKey(res *resource) bool {
	return res.keyed && x.key != "" && !x.p.opts.IgnoreKeys
}

// admit says whether the write is to be executed; if not, the answer.
func (x *exchange) admit(res *resource) (answer, bool) {
	switch {
	case !x.fault.executes():
		return answer{}, false // send makes the fault's own answer
	case x.bad != nil:
		return *x.bad, false
	case !x.usesKey(res):
		return answer{}, true
	case len(x.key) > 255:
		return *invalid("idempotency_key", "must not be longer than 255 characters"), false
	}
	verdict, stored := x.w.keys.begin(x.key, x.sha, x.p.opts.Clock.Now())
	switch verdict {
	case keyMismatch:
		return failure(http.StatusBadRequest, "idempotency_error", "idempotency_key_reused",
			"The idempotency key was used with another body."), false
	case keyInFlight:
		return failure(http.StatusConflict, "idempotency_error", "idempotency_key_in_use",
			"A request with this idempotency key is being worked on."), false
	case keyReplay:
		return x.replay(stored), false
	}
	return answer{}, true
}

func (x *exchange) replay(a answer) answer {
	if o := a.pending; o != nil {
		location := a.location
		a = x.created(o, o.pending(x.p.opts.Clock.Now()))
		a.location = location
	}
	a.header = a.header.Clone()
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("Idempotent-Replayed", "true")
	x.w.log.update(x.rec, func(rec *Request) { rec.Replayed = true })
	return a
}

// execute applies the write unless the fault or the data say no, and settles
// its key. It returns the answer that a healthy provider would give.
func (x *exchange) execute(res *resource) answer {
	a, applied := x.attempt(res)
	if !x.usesKey(res) {
		return a
	}
	stored := a
	if failed, ok := x.fault.failure(); ok && x.p.opts.StoreFailures {
		stored = failed
	}
	if applied || x.p.opts.StoreFailures {
		x.w.keys.settle(x.key, stored)
	} else {
		x.w.keys.forget(x.key)
	}
	return a
}

func (x *exchange) attempt(res *resource) (a answer, applied bool) {
	if !x.fault.applies() {
		a, _ = x.fault.failure()
		return a, false
	}
	if res.refuse != nil {
		if refusal := res.refuse(x.draft); refusal != nil {
			return *refusal, false
		}
	}
	o, isNew := x.w.store.apply(x.object(res), res.prefix, x.draft.unique)
	if !isNew {
		return failureWith(http.StatusConflict, map[string]any{
			"type": "invalid_request_error", "code": res.name + "_exists", "id": o.effect.ID,
			"message": "There is such a " + res.name + " already.",
		}), false
	}
	x.w.log.update(x.rec, func(rec *Request) { rec.EffectID = o.effect.ID })
	x.p.changed.ring()
	a = x.created(o, x.fault.kind() == Accepted202)
	a.location = res.path + "/" + o.effect.ID
	return a, true
}

func (x *exchange) object(res *resource) *object {
	now := x.p.opts.Clock.Now()
	lag := x.fault.LookupLag
	if res.lags && lag == 0 {
		lag = x.p.opts.SearchLag
	}
	o := &object{
		fields: x.draft.fields, status: res.status, visibleAt: now.Add(lag), settlesAt: now, twice: x.fault.DuplicateLookup,
		effect: Effect{
			Resource: res.name, At: now, OperationID: x.draft.operationID, NaturalKey: x.draft.naturalKey,
			Key: x.key, Request: x.rec.Number, Attempt: x.rec.Attempt, Body: x.body,
		},
	}
	if x.fault.kind() == Accepted202 {
		o.settlesAt = now.Add(x.fault.SettleAfter)
	}
	return o
}

// created answers with an object: 201, or 202 and pending.
func (x *exchange) created(o *object, accepted bool) answer {
	view := o.view(x.p.opts.Clock.Now())
	if !accepted {
		return answer{status: http.StatusCreated, body: encode(view)}
	}
	view["status"] = "pending"
	return answer{status: http.StatusAccepted, body: encode(view), pending: o}
}

// look runs a look-up: waits, read, answer.
func (x *exchange) look(read func(*exchange) answer) {
	if !x.before() {
		x.cut()
		return
	}
	a := read(x)
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
