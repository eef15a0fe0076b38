package server

import (
	"hash/maphash"
	"sync/atomic"
)

// How the share of duplicates is kept: in parts of duplicatesWhole, as a moving
// average in which the latest request weighs one part in duplicatesWeight.
const (
	duplicatesWhole  = 1 << 16
	duplicatesWeight = 32
	// duplicatesOften is the share from which it pays to look first. A claim that
	// finds its key taken was rendered, sealed and written for nothing, and its
	// operation is read after it: that costs some four times as much as a look
	// that finds nothing.
	duplicatesOften = duplicatesWhole / 4
	// duplicatesGroups bounds the memory: tenants share a group by chance.
	duplicatesGroups = 64
)

// duplicates foresees whether a tenant's request that does not say so is sent again,
// from what those before it were: after this process or the tenant's planners were
// started anew, most are. It decides what the ledger is asked first, for the
// operation or for a claim, and nothing else. It is safe for concurrent use.
type duplicates struct {
	seed   maphash.Seed
	shares [duplicatesGroups]atomic.Int64
}

func newDuplicates() *duplicates { return &duplicates{seed: maphash.MakeSeed()} }

func (d *duplicates) of(tenant string) *atomic.Int64 {
	return &d.shares[maphash.String(d.seed, tenant)%duplicatesGroups]
}

// likely reports whether it pays to look before a claim.
func (d *duplicates) likely(tenant string) bool { return d.of(tenant).Load() >= duplicatesOften }

// note takes what a request turned out to be. Of two at once one may be lost: that
// changes the average little.
func (d *duplicates) note(tenant string, duplicate bool) {
	share := d.of(tenant)
	before, towards := share.Load(), int64(0)
	if duplicate {
		towards = duplicatesWhole
	}
	share.Store(before + (towards-before)/duplicatesWeight)
}
