package model

// Bounds of a world. They are small, because every combination is visited.
const (
	maxKeys     = 2
	slots       = 3         // attempts of one operation that the model has room for
	epochs      = slots + 2 // of keys: one more for each attempt that was proved to have made nothing, and for a correction
	reconcilers = 2
	maxEffects  = 2 // a third effect is no news: two break the first law
)

// World is everything at one instant. It holds no pointer, so that two worlds
// are the same exactly if they are equal. Times are ticks from now: what is due
// is 0, and what is not planned is never.
type World struct {
	Keys   [maxKeys]Key
	Faults uint8 // that may still happen
}

// never is a time that does not come.
const never = 255

// Key is one idempotency key: its row, and whoever works on it.
type Key struct {
	Row      Row
	Workers  [slots]Worker // of attempt 1, 2...
	Requests [slots]Request
	Repairs  [reconcilers]Repair
	Provider Store

	// What an observer remembers, for the laws.
	Buried  bool  // the row was swept, and its key is refused for ever
	Started uint8 // attempts that a committed row says are running, as bits
	Told    uint8 // the reference in the receipt that callers got

	Backup Row // that the ledger comes back with, if it is lost
	Loss   Loss
}

// Loss is how far a disaster is.
type Loss uint8

// The stages of a disaster. There is one at most.
const (
	NoLoss     Loss = iota
	Lost            // the ledger is back as it was, and nothing serves it
	Recovering      // somebody has said so
	Unsaid          // it is served, and nobody has
)

// Row is an operation in the ledger. Texts are numbers of the model's names.
type Row struct {
	Exists                       bool
	State, Event, Effect, Reason uint8
	InDoubt, Incident, Sealed    bool
	Attempt, Epoch, Lease        uint8
	Resolves, NegativeReads      uint8
	Reference, Receipt           uint8
	Args                         uint8
	Old                          bool         // it had failed before a recovery began
	Outcomes                     [slots]uint8 // how its attempts ended
	Review                       uint8        // the reason of the open review

	Horizon, LeaseEnds, Next, WindowEnds, WatchEnds, ReviewEnds uint8 // ticks from now, or never

	DoubtAge   uint8 // ticks since it became unknown, up to the longest time that matters
	SentInside bool  // its last attempt was claimed inside the key horizon
}

// Phase is what a process is about to do.
type Phase uint8

// The phases of workers (the first five) and of reconcilers.
const (
	Gone       Phase = iota // no such process, or it crashed
	Claimed                 // the claim is committed, nothing is sent
	Waiting                 // sent, no answer yet
	Holding                 // has an outcome to record
	Overtaken               // was fenced off and reads the row again
	Leased                  // a reconciler has the row, and has not asked yet
	HasFinding              // it asked, and has to act on the answer
)

// Worker is the process that makes one attempt.
type Worker struct {
	Phase     Phase
	Aged      bool  // since its claim so much time went by that it must not send
	Outcome   uint8 // an actions.Kind
	Reference uint8
	Knows     Row // the operation as it knows it
}

// Request is a request under way to the provider.
type Request struct {
	UnderWay bool
	Strange  bool  // of an operation that the ledger has forgotten
	Epoch    uint8 // of its key
	Left     uint8 // ticks in which it can still land
}

// Repair is a reconciler at work on a row that it leased.
type Repair struct {
	Phase     Phase
	Finding   Finding
	Reference uint8
	Knows     Row
}

// Store is what the provider holds of one key.
type Store struct {
	Effects uint8             // that it made
	Strange uint8             // of those, the first: under an operation id that was forgotten
	Lag     [maxEffects]uint8 // ticks until look-ups list them
	Keys    [epochs]StoredKey // by epoch
	Job     Job
	Event   Event // that it has yet to send
}

// StoredKey is what a provider remembers under a key.
type StoredKey struct {
	Kind      Stored
	Reference uint8 // of a failure: the kind of its answer
	Left      uint8 // ticks until it forgets
}

// Stored is what became of the first request under a key.
type Stored uint8

// What is stored under a key.
const (
	Unseen  Stored = iota
	Made           // an effect
	Queued         // a job
	Failure        // a refusal, by providers that replay those
)

// Job is work that a provider took up to do later.
type Job uint8

// The states of a job.
const (
	NoJob Job = iota
	JobOpen
	JobDone
	JobEnded // for good, without an effect
)

// Event is what a provider is about to say by itself.
type Event uint8

// The events of a provider.
const (
	NoEvent Event = iota
	SaysMade
	SaysEnded
)

// Finding is the answer to a look-up.
type Finding uint8

// What look-ups find.
const (
	FoundNothing Finding = iota // inconclusive
	FoundOne
	FoundAbsent
	FoundSeveral
	FoundEnded
)
