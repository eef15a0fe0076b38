package fakeprovider

import (
	"net/http"
	"net/url"
	"time"
)

// Resource is one kind of thing that a provider keeps: how a write of it is
// recognised, read and answered, what an idempotency key does for it, and how
// it is found again. See [Options.Resources].
//
// Its functions must be safe for concurrent use, must not keep or change what
// they are given, and must not call the provider back.
type Resource struct {
	// Name is the resource of its effects, such as "refund". Required, and
	// different from every other.
	Name string
	// Method of a write; empty means POST. Path is a pattern such as
	// "/v1/refunds/{id}/void": each {name} stands for a part of one segment.
	// Required.
	Method, Path string
	// Match chooses among resources that share method and path; nil takes all.
	// The first resource that matches has the write.
	Match func(*Call) bool

	// Read decodes and validates a write, before its key is looked at. With a
	// refusal it returns as much of the draft as could be read. Nil takes
	// everything. It must not depend on what the provider holds.
	Read func(*Call) (Draft, *Answer)
	// Refuse is a refusal that is made in execution, so that a key may keep it.
	// Nil refuses nothing.
	Refuse func(*Call, Draft) *Answer
	// Keys say what an idempotency key does. The zero value knows no keys.
	Keys Keys

	// NewID makes the id of the nth effect of the provider. Nil makes up a
	// random one.
	NewID func(n int) string
	// Answer tells a client of its write: a success, or, while
	// [Object.Pending], that it will be done later. Required.
	Answer func(Object) Answer
	// Taken answers a write whose [Draft.Unique] another object holds. Nil is
	// a conflict in the provider's shape.
	Taken func(*Call, Object) Answer

	// Fault is the provider's own answer to a [Fault] that is answered with an
	// error (RateLimited, Reject, ErrorBeforeApplying, ErrorAfterApplying,
	// OwnAnswer), of a write or of one of the look-ups. It decides about
	// [Fault.Status] itself. False leaves the answer to the provider's shape of
	// errors.
	Fault func(*Call, Fault) (Answer, bool)
	// Spoiled is the member of an answer that faults spoil where they name none
	// ([Fault.Field]). Empty means "status".
	Spoiled string

	Lookups []Lookup
}

// Lookup is one way to find objects of a resource. Look-ups of several
// resources may share method and path: they are asked in order, and the first
// that finds something answers.
type Lookup struct {
	// Method is GET if empty. Path and Match are as in [Resource].
	Method, Path string
	Match        func(*Call) bool

	// ByID is a read by the provider's own id: it sees an object at once and
	// once, whatever a fault says about look-ups.
	ByID bool
	// Lag is how long a new object stays invisible. The lag of a fault wins.
	Lag time.Duration
	// Answer tells what is found among all objects that can be seen, newest
	// first, and whether anything was found. Required.
	Answer func(c *Call, visible []Object) (a Answer, found bool)
}

// Keys say what idempotency keys do for a resource.
type Keys struct {
	// From reads the key of a write; empty means that it has none. Nil knows no
	// keys.
	From func(*Call) string
	// Ignored makes the provider read keys and do nothing about them.
	Ignored bool
	// Refuse is the refusal of a key that is too long, or has a letter that is
	// not allowed. Nil takes all.
	Refuse func(key string) *Answer
	// Scope is a name under which keys are known. Resources with one scope
	// share them.
	Scope string
	// Window is how long a key is recognised, counted from its first use. Zero
	// means for ever.
	Window time.Duration
	// Compare is what a duplicate must agree in with the first write under its
	// key. Nil compares nothing.
	Compare func(*Call) string
	// StoreFailures keeps failures that are produced after execution began and
	// replays them. Without it a failure without an effect frees the key, and a
	// failure after an effect is followed by the success on replay.
	StoreFailures bool
	// Latest makes the replay of an accepted write tell the newest state of its
	// object in place of the stored answer.
	Latest bool
	// InFlight is what a duplicate gets while the first is worked on.
	InFlight InFlight
	// Mismatch and InUse answer a duplicate that does not agree, and one that
	// comes too early. Nil are errors in the provider's shape.
	Mismatch, InUse func(*Call) Answer
	// Replayed are headers of a replayed answer.
	Replayed http.Header
}

// InFlight is what happens to a duplicate while the first write under its key
// is worked on.
type InFlight int

const (
	// InFlightConflict refuses it.
	InFlightConflict InFlight = iota
	// InFlightWaits holds it until the first is done, and then replays.
	InFlightWaits
	// InFlightExecutes executes it: the key protects only once the first is done.
	InFlightExecutes
)

// Endpoint is a call that is neither a write nor a look-up, such as one for an
// access token. It needs no credentials, takes no faults and has no effects.
type Endpoint struct {
	Method, Path string // as in [Resource]
	Answer       func(*Call) Answer
}

// Call is a request as the provider received it.
type Call struct {
	Method string
	// Path is decoded and without [Options.BasePath]; Target is the path and
	// query as they came.
	Path, Target string
	Query        url.Values
	Header       http.Header
	Body         []byte

	values map[string]string // of the pattern that matched
}

// Value returns what stands for {name} in the pattern of the path, decoded.
func (c *Call) Value(name string) string { return c.values[name] }

// Draft is a write that was read and not applied.
type Draft struct {
	// OperationID and NaturalKey are what effects are counted by.
	OperationID, NaturalKey string
	// Unique is a value that only one object of the resource may hold; empty
	// means none.
	Unique string
	// NewID is that of the resource, for an id that depends on the write. Nil
	// leaves it to the resource.
	NewID func(n int) string
	// Data is for the functions of the resource alone.
	Data any
}

// Object is what an applied write made.
type Object struct {
	// ID is the provider's reference; a false one where a fault shows an object
	// a second time.
	ID string
	// Number counts the effects of the provider, from 1, over resets.
	Number int
	// At is when it was applied, by the provider's clock.
	At time.Time
	// Key is the idempotency key of the write, also where it is ignored.
	Key string
	// Pending: it was accepted and is not done yet.
	Pending bool
	Call    *Call
	Draft   Draft
}

// Answer is what a client is told, before a fault spoils it. Headers that are
// not named are the provider's usual ones: Content-Type (JSON), Request-Id,
// Server.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Location is the path of the object, for the faults that redirect.
	Location string
}

// Failure is an error of the provider, before it has its shape.
type Failure struct {
	Status              int
	Type, Code, Message string
}
