package server

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Bounds of the memory of finished operations.
const (
	// defaultReplayBytes bounds its size where Options name none.
	defaultReplayBytes = 16 << 20
	// replayLife is how long it answers for an operation that it has not seen
	// again. An incident that another replica noted shows after that.
	replayLife = time.Minute
	// replayMargin is how much of its window an operation must have left to be
	// remembered. How much is left by the database's clock is known only about:
	// a row may come late from the ledger, and clocks differ. What is remembered
	// lives less than that, so that it never answers for a key that the ledger
	// has set free.
	replayMargin = 2 * time.Minute
	// replayOverhead is what an entry takes besides its texts: the operation
	// itself, its hash, and its places in map and list.
	replayOverhead = 1300
	// answerOverhead is what the ready answer of an entry takes, besides texts
	// that it shares with the operation.
	answerOverhead = 1200
)

// replays answers duplicates of succeeded operations from memory. Nothing moves
// a succeeded operation any more; the one thing that may still change is that an
// incident is noted on it, after which it is read from the ledger each time.
// Failed operations are not remembered: they can be corrected or contradicted,
// on another replica too.
//
// It never answers beyond the window, nor longer than a minute after it saw the
// operation: so an incident that another replica noted shows within a minute.
// It is bounded in bytes; what came first goes first, which is also what ends
// first. It is safe for concurrent use.
type replays struct {
	limit int

	mu            sync.Mutex
	byKey         map[replayKey]*remembered
	first, latest *remembered // in the order in which they came, and so end
	bytes         int
	// ahead is how far the database's clock is ahead of ours at least: no row
	// was changed in the future.
	ahead time.Duration
}

// replayKey has two parts, so that no two tenants can ever compose the same.
type replayKey struct{ tenant, key string }

// remembered is a succeeded operation in memory.
type remembered struct {
	op    *ledger.Operation // not changed; nil when it was dropped before its turn
	since time.Time
	bytes int
	after *remembered // the next younger one
	// text is the SHA-256 of a text of arguments that was found to mean the
	// operation's, by every check there is, and answer what its callers get;
	// zero before the first. The answer is not changed: many callers may be
	// getting it now.
	text   [sha256.Size]byte
	answer *oncewardv1.RequestActionResponse
	// encoded is answer as it is sent; nil where it cannot be.
	encoded mem.Buffer
}

// newReplays makes a memory of at most so many bytes: zero means the default,
// less than zero none.
func newReplays(limit int) *replays {
	if limit == 0 {
		limit = defaultReplayBytes
	}
	return &replays{limit: limit, byKey: map[replayKey]*remembered{}}
}

// get returns the succeeded operation that holds a key, or nil where it is not
// remembered. The caller compares action type and arguments, as with one from
// the ledger, and changes nothing.
func (r *replays) get(tenant, key string) *ledger.Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.answering(tenant, key); e != nil {
		return e.op
	}
	return nil
}

// getByText is get, with the ready answer and how it is encoded, for a request
// whose arguments are byte for byte a text that was checked before
// ([replays.checked]). It returns nil for any other.
func (r *replays) getByText(tenant, key, text string) (op *ledger.Operation, answer *oncewardv1.RequestActionResponse, encoded mem.Buffer) {
	r.mu.Lock()
	e := r.answering(tenant, key)
	if e == nil || e.answer == nil {
		r.mu.Unlock()
		return nil, nil, nil
	}
	op, answer, encoded = e.op, e.answer, e.encoded
	checked := e.text
	r.mu.Unlock()
	if textHash(text) != checked {
		return nil, nil, nil
	}
	return op, answer, encoded
}

// checked notes that a text of arguments passed every check for the action type
// of an operation from here, means the arguments that it has, and gets this answer,
// which the caller may change afterwards. It need not be parsed and validated again:
// both depend on nothing else ([actions.Adapter.Validate]). Of the text only its hash
// is kept.
func (r *replays) checked(op *ledger.Operation, text string, answer *oncewardv1.RequestActionResponse) {
	sum := textHash(text)
	if r.spelled(op, sum) {
		return
	}
	answer = proto.CloneOf(answer)
	var encoded mem.Buffer
	if bytes, err := proto.Marshal(answer); err == nil { // else it is said when the answer is sent
		encoded = mem.SliceBuffer(bytes)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(op)
	if e == nil || e.answer != nil {
		return // dropped, or somebody else was faster
	}
	more := answerOverhead + len(op.Receipt)
	if encoded != nil {
		more += encoded.Len()
	}
	e.bytes += more
	r.bytes += more
	e.text, e.answer, e.encoded = sum, answer, encoded
	r.trim(time.Now())
}

// spelled notes another text of the same arguments where the answer is ready, and
// reports whether there is nothing more to do.
func (r *replays) spelled(op *ledger.Operation, sum [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(op)
	if e == nil {
		return true
	}
	if e.answer != nil {
		e.text = sum
	}
	return e.answer != nil
}

// entry is that of an operation from here, or nil where it is remembered no more, or
// a newer state is. The caller holds mu.
func (r *replays) entry(op *ledger.Operation) *remembered {
	e, ok := r.byKey[replayKey{op.Tenant, op.Key}]
	if !ok || e.op != op {
		return nil
	}
	return e
}

// textHash is the SHA-256 of a text. The usual size of arguments is copied on the
// stack.
func textHash(text string) [sha256.Size]byte {
	var room [512]byte
	return sha256.Sum256(append(room[:0], text...))
}

func (r *replays) answering(tenant, key string) *remembered {
	e, ok := r.byKey[replayKey{tenant, key}]
	if !ok || e.op.Incident != "" || e.ended(time.Now()) {
		return nil
	}
	return e
}

// observe takes note of an operation as the ledger has it, which must not be changed
// any more.
func (r *replays) observe(op *ledger.Operation) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead = max(r.ahead, op.UpdatedAt.Sub(now))
	known, ok := r.byKey[replayKey{op.Tenant, op.Key}]
	if ok && known.op.ID == op.ID && known.op.Revision >= op.Revision {
		return // this or an older state
	}
	if ok {
		r.drop(known)
	}
	if op.State == ledger.Succeeded && r.answers(op, now) {
		// With an incident too: not to answer with it, but so that an older
		// reading, still on its way, is not taken for news.
		r.add(op, now)
	}
	r.trim(now)
}

// answersFor reports whether a finished operation certainly answers for its key
// still. Near the end of its window the ledger decides, by its own clock.
func (r *replays) answersFor(op *ledger.Operation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers(op, time.Now())
}

func (r *replays) answers(op *ledger.Operation, now time.Time) bool {
	now = now.Add(r.ahead)
	if op.UpdatedAt.After(now) {
		now = op.UpdatedAt
	}
	return op.WindowEndsAt.Sub(now) >= replayMargin
}

func (r *replays) add(op *ledger.Operation, now time.Time) {
	if op.Attempts != nil || op.Review != nil {
		// As a read by key has it, so that an answer does not tell where it came from.
		bare := *op
		bare.Attempts, bare.Review = nil, nil
		op = &bare
	}
	e := &remembered{op: op, since: now, bytes: sizeOf(op)}
	if e.bytes > r.limit {
		return
	}
	if r.latest == nil {
		r.first = e
	} else {
		r.latest.after = e
	}
	r.latest = e
	r.bytes += e.bytes
	r.byKey[replayKey{op.Tenant, op.Key}] = e
}

// drop forgets an operation. Its place in the list, now empty, ends in its turn.
func (r *replays) drop(e *remembered) {
	delete(r.byKey, replayKey{e.op.Tenant, e.op.Key})
	r.bytes += replayOverhead - e.bytes
	e.op, e.answer, e.encoded, e.bytes = nil, nil, nil, replayOverhead
}

// trim forgets what has ended, and what is too much.
func (r *replays) trim(now time.Time) {
	for r.first != nil && (r.bytes > r.limit || r.first.ended(now)) {
		e := r.first
		if r.first = e.after; r.first == nil {
			r.latest = nil
		}
		if e.op != nil {
			delete(r.byKey, replayKey{e.op.Tenant, e.op.Key})
		}
		r.bytes -= e.bytes
	}
}

// run gives back the memory of what has ended, until ctx ends.
func (r *replays) run(ctx context.Context) {
	tick := time.NewTicker(replayLife / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.mu.Lock()
			r.trim(now)
			r.mu.Unlock()
		}
	}
}

// ended by one clock or the other: the monotonic one stands still while a
// machine sleeps.
func (e *remembered) ended(now time.Time) bool {
	return now.Sub(e.since) >= replayLife || now.Round(0).Sub(e.since.Round(0)) >= replayLife
}

func sizeOf(op *ledger.Operation) int {
	n := replayOverhead + len(op.Receipt)
	for _, text := range [...]string{
		op.Tenant, op.ID, op.Key, op.KeySource, op.ActionType, op.AdapterVersion, op.ContractVersion,
		op.Reason, op.ProviderReference, op.RequestedBy, op.IntentID, op.DistinctFrom, op.Incident,
		op.Amount, op.Currency, op.PolicyVersion, op.Rule, op.Run.Instance,
		op.Run.RunID, op.Run.StepID, op.Run.ToolCallID, op.Run.ToolVersion, op.Run.Agent, op.Run.TraceParent,
	} {
		n += len(text)
	}
	return n
}
