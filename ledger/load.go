package ledger

// Lane is where callers wait who share transactions of the store. Lanes are few:
// who counts by them may keep an array.
type Lane int

// The lanes.
const (
	Writes      Lane = iota // new operations, and moves that end an attempt or a review
	Alterations             // later attempts, evidence, refusals: rare
	Reads                   // who holds a key
	Lanes                   // how many there are
)

// String is the name of the lane in metrics.
func (l Lane) String() string {
	switch l {
	case Writes:
		return "writes"
	case Alterations:
		return "alterations"
	case Reads:
		return "reads"
	default:
		return "other"
	}
}

// Found is what a look found out about a commit whose answer was lost.
type Found int

// What was found. The zero value claims nothing.
const (
	FoundUnknown   Found = iota // nobody could look, or the caller looks in a way of its own
	FoundCommitted              // it is there
	FoundLost                   // it was not there when it was looked for
	Founds                      // how many there are
)

// String is its name in metrics.
func (f Found) String() string {
	switch f {
	case FoundCommitted:
		return "committed"
	case FoundLost:
		return "lost"
	default:
		return "unknown"
	}
}

// Load is how busy a store is at a moment.
type Load struct {
	// Waiting are rows that wait for a transaction, by lane.
	Waiting [Lanes]int
	// Idle and Used are connections that are open, Limit how many there may be.
	Idle, Used, Limit int
}
