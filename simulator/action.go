package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// action is a compiled action type.
type action struct {
	s    *simulation
	of   *definition.Action
	book *playbook

	id        *expr.Template
	operation *expr.Expression
	unique    *expr.Expression
	success   *answer
	pending   *answer
	taken     *answer
	object    *expr.Tree // nil: the JSON of the answer
	echo      string     // header by which the provider shows that it honoured a key
}

// resource makes what the fake provider keeps for an action type. It returns
// false where the action cannot be played; why is in the faults.
func (s *simulation) resource(of *definition.Action, common []rule) (fakeprovider.Resource, bool) {
	before := len(s.faults)
	switch {
	case of.Request == nil:
		s.bad(of.Place, "request", "only action types with an HTTP request can be simulated")
	case of.Simulate == nil:
		s.bad(of.Place, "simulate", "is missing: the simulator needs simulate.success, what the provider answers to this write")
	case of.Simulate.Success.Status == 0:
		s.bad(of.Place, "simulate.success.status", "is missing: the simulator needs to know what the provider answers to this write")
	}
	if len(s.faults) > before {
		return fakeprovider.Resource{}, false
	}
	a := &action{s: s, of: of, book: s.newPlaybook(s.rules(of.Place, of.Outcomes), common)}
	a.compile()
	s.actions = append(s.actions, a)
	res := fakeprovider.Resource{
		Name: of.Type, Method: methodOf(of.Request), Path: s.path(of.Place, "request.path", of.Request.Path),
		Read: a.read, Answer: a.answer, Taken: a.isTaken, Spoiled: spoiled(of.Receipt),
		Fault: a.book.fault(s.answer(of.Place, "simulate.refusal", of.Simulate.Refusal)),
		Keys:  a.keys(), Match: s.match(of.Request),
	}
	for i := range of.Lookups {
		res.Lookups = append(res.Lookups, a.lookup(i))
	}
	return res, len(s.faults) == before
}

func (a *action) compile() {
	s, at, sim := a.s, a.of.Place, a.of.Simulate
	id := sim.ID
	if id == "" {
		id = "obj_${n}"
	}
	a.id = s.template(at, "simulate.id", id)
	a.operation = s.expression(s.play, at, "simulate.operation", sim.Operation)
	a.unique = s.expression(s.play, at, "simulate.unique", sim.Unique)
	a.success = s.answer(at, "simulate.success", &sim.Success)
	a.pending = s.answer(at, "simulate.pending", sim.Pending)
	a.taken = s.answer(at, "simulate.taken", sim.Taken)
	if sim.Object != nil {
		a.object = s.tree(at, "simulate.object", sim.Object)
	}
}

func methodOf(r *definition.Request) string {
	if r.Method == "" {
		return http.MethodPost
	}
	return strings.ToUpper(r.Method)
}

// written is what a draft remembers of its write.
type written struct {
	request map[string]any
}

// read decodes a write. A write that the answer cannot be made of lacks
// something that the provider needs, and is refused before it has an effect.
func (a *action) read(c *fakeprovider.Call) (fakeprovider.Draft, *fakeprovider.Answer) {
	request, err := requestOf(c)
	draft := fakeprovider.Draft{Data: written{request}}
	vars := a.s.vars(request)
	if a.operation != nil {
		draft.OperationID, _, _ = a.operation.Text(vars) // a write without one is counted by its bytes
	}
	unreadable := err
	if a.unique != nil {
		if draft.Unique, _, err = a.unique.Text(vars); err != nil && unreadable == nil {
			unreadable = fmt.Errorf("simulate.unique: %w", err)
		}
	}
	about := draft.OperationID
	if about == "" {
		about = draft.Unique
	}
	if about == "" {
		sum := sha256.Sum256([]byte(c.Target + "\n" + string(c.Body)))
		about = hex.EncodeToString(sum[:8])
	}
	draft.NaturalKey = a.of.Type + ":" + about
	draft.NewID = func(n int) string {
		id, err := a.newID(request, n)
		if err != nil {
			return fmt.Sprintf("obj_%d", n) // not reached: it was tried below
		}
		return id
	}
	var id string
	if unreadable == nil {
		if id, err = a.newID(request, 0); err != nil {
			unreadable = fmt.Errorf("simulate.id: %w", err)
		}
	}
	if unreadable == nil {
		if _, _, err = a.success.render(a.objectVars(fakeprovider.Object{ID: id, Call: c, Draft: draft})); err != nil {
			unreadable = fmt.Errorf("simulate.success: %w", err)
		}
	}
	if unreadable == nil {
		return draft, nil
	}
	bad := a.s.failure(fakeprovider.Failure{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "invalid_request",
		Message: "The simulator cannot read the request: " + unreadable.Error() + ".",
	})
	return draft, &bad
}

// newID is the id of the nth effect.
func (a *action) newID(request map[string]any, n int) (string, error) {
	vars := a.s.vars(request)
	vars["n"], vars["uuid"] = n, a.uuid(n)
	return a.id.Text(vars, nil)
}

// uuid is one for each effect, and another one in every simulation.
func (a *action) uuid(n int) string {
	return expr.UUIDOf(fmt.Sprintf("%s %s %d", a.s.seed, a.of.Type, n))
}

// objectVars are the variables of what is said about an object.
func (a *action) objectVars(o fakeprovider.Object) expr.Vars {
	request := map[string]any{}
	if w, ok := o.Draft.Data.(written); ok {
		request = w.request
	}
	vars := a.s.vars(request)
	vars["id"], vars["n"], vars["uuid"], vars["key"] = o.ID, o.Number, a.uuid(o.Number), o.Key
	if !o.At.IsZero() {
		vars["now"] = o.At
	}
	return vars
}

// answer tells a client of its write.
func (a *action) answer(o fakeprovider.Object) fakeprovider.Answer {
	out, _, err := a.told(o)
	if err != nil {
		return a.s.broken("simulate.success", err)
	}
	if a.echo != "" && o.Key != "" && out.Header.Get(a.echo) == "" {
		out.Header.Set(a.echo, o.Key)
	}
	return out
}

// told is the answer about an object, and the value of its JSON.
func (a *action) told(o fakeprovider.Object) (fakeprovider.Answer, any, error) {
	vars := a.objectVars(o)
	switch {
	case !o.Pending:
		vars["status"] = a.success.status
		return a.success.render(vars)
	case a.pending != nil:
		vars["status"] = a.pending.status
		return a.pending.render(vars)
	case a.success.status == http.StatusAccepted:
		return a.success.render(vars) // it says no more than this anyway
	default:
		return fakeprovider.Answer{Status: http.StatusAccepted, Header: http.Header{}, Body: []byte("{}")}, nil, nil
	}
}

// seen is the object as look-ups see it; false where they do not yet.
func (a *action) seen(o fakeprovider.Object) (any, bool) {
	_, value, err := a.told(o)
	if err != nil || o.Pending && value == nil {
		return nil, false
	}
	if a.object != nil {
		vars := a.objectVars(o)
		vars["answer"] = value
		value, err = a.object.Value(vars)
		return value, err == nil && value != expr.Omitted
	}
	if value == nil {
		value = map[string]any{"id": o.ID}
	}
	return value, true
}

// isTaken answers a write whose unique value an object has.
func (a *action) isTaken(c *fakeprovider.Call, existing fakeprovider.Object) fakeprovider.Answer {
	known := func(vars expr.Vars) {
		vars["id"], vars["n"], vars["uuid"] = existing.ID, existing.Number, a.uuid(existing.Number)
		vars["object"], _ = a.seen(existing)
	}
	if out, ok := a.book.say(a.taken, c, known); ok {
		return out
	}
	if out, ok := a.book.tell(a.book.first(isMaybeOurs, nil), c, known); ok {
		return out
	}
	return a.s.failure(fakeprovider.Failure{Status: http.StatusConflict, Code: "already_exists", Message: "There is such an object already."})
}

// spoiled chooses a member of the answer that the receipt keeps, so that a fault
// that spoils the answer spoils the receipt. What the reference is made of is no
// such member: a spoiled reference is another one.
func spoiled(r *definition.Receipt) string {
	if r == nil {
		return ""
	}
	member := regexp.MustCompile(`\bbody\.\??([A-Za-z_][A-Za-z0-9_]*)`)
	referenced := map[string]bool{}
	for _, m := range member.FindAllStringSubmatch(r.Reference, -1) {
		referenced[m[1]] = true
	}
	var names []string
	for _, x := range r.Fields {
		x = strings.TrimSpace(x)
		if m := member.FindStringSubmatch(x); len(m) > 1 && m[0] == x && !referenced[m[1]] {
			names = append(names, m[1])
		}
	}
	if len(names) == 0 || slices.Contains(names, "status") {
		return ""
	}
	return slices.Min(names)
}
