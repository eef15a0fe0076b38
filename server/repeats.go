package server

import "sync/atomic"

// How the share of repetitions is kept: in parts of repeatsWhole, as a moving
// average in which the latest request weighs one part in repeatsWeight.
const (
	repeatsWhole  = 1 << 16
	repeatsWeight = 32
	// repeatsOften is the share from which it pays to look first. A claim that
	// finds its key taken was rendered, sealed and written for nothing, and its
	// operation is read after it: that costs some four times as much as a look
	// that finds nothing (docs/performance.md).
	repeatsOften = repeatsWhole / 4
)

// repeats foresees whether a request that does not say so is sent again, from what
// those before it were: after this process or its callers were started anew, most
// are. It decides only what is asked first, the ledger's look-up or its claim, never
// what is answered. The zero value expects new ones. It is safe for concurrent use.
type repeats struct{ share atomic.Int64 }

// likely reports whether it pays to look before a claim.
func (r *repeats) likely() bool { return r.share.Load() >= repeatsOften }

// note takes what a request turned out to be. Of two at once one may be lost: that
// changes the average little.
func (r *repeats) note(repeated bool) {
	share := r.share.Load()
	towards := int64(0)
	if repeated {
		towards = repeatsWhole
	}
	r.share.Store(share + (towards-share)/repeatsWeight)
}
