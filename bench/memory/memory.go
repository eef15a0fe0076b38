// Package memory measures what a read at a random place of memory costs on this
// machine: the least that a database pays for a row or an index page that is in its
// cache and not in the processor's.
//
// It must know nothing of ledgers.
package memory

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/onceward/onceward/bench/contest"
	"github.com/onceward/onceward/bench/machine"
)

// Name is the entry's.
const Name = "memory"

// Sizes are those of the regions that are read, in MiB: from one that the
// processor's own cache holds to the cache of a database.
func Sizes() []int { return []int{4, 64, 1024, 4096, 12288} }

const (
	// share is the most of the machine's memory that is taken.
	share = 0.6
	// count is how many places are read.
	count = 200_000
	line  = 64 // bytes that the processor reads at once
	page  = 4096
)

// Entry measures regions of up to so many MiB.
func Entry(largest int) contest.Entry {
	return contest.Entry{Name: Name, Measure: func(_ context.Context, round contest.Round) error {
		memory := machine.Describe().MemoryGiB * 1024
		if memory == 0 {
			round.Logf("OMITTED: reading memory: this system does not say how much it has")
			return nil
		}
		for _, mib := range Sizes() {
			if mib > largest {
				continue
			}
			if float64(mib) > share*memory {
				round.Logf("OMITTED: reading %d MiB: too much for %.0f MiB of memory", mib, memory)
				continue
			}
			mean, late, err := measure(mib)
			if err != nil {
				return fmt.Errorf("%d MiB: %w", mib, err)
			}
			round.Value(Mean(mib), "ns", float64(mean.Nanoseconds()))
			round.Value(Late(mib), "ns", float64(late.Nanoseconds()))
			round.Logf("a read at a random place of %d MiB: %s, the 99th of 100 %s", mib, mean, late)
		}
		return nil
	}}
}

// Mean is the name of a figure: the mean of all reads of so many MiB.
func Mean(mib int) string { return fmt.Sprintf("memory_read_%dmib_mean_ns", mib) }

// Late is the name of a figure: the 99th of 100 reads, by how long they took.
func Late(mib int) string { return fmt.Sprintf("memory_read_%dmib_p99_ns", mib) }

// measure reads a region that this process has touched all of. It is not Go's own
// memory, which would be collected. Where the system gives large pages to all who ask
// for none (transparent_hugepage=always), it is in such.
func measure(mib int) (mean, late time.Duration, err error) {
	region, err := syscall.Mmap(-1, 0, mib<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return 0, 0, err
	}
	for at := 0; at < len(region); at += page {
		region[at] = 1
	}
	p := places{of: uint64(len(region) / line), seed: 88172645463325252}
	began := time.Now()
	for range count {
		p.last = region[p.next()]
	}
	mean = time.Since(began) / count

	took := make([]time.Duration, count)
	for i := range took {
		at := p.next()
		began := time.Now()
		p.last = region[at]
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return mean, took[count*99/100], syscall.Munmap(region)
}

// places are those that are read, in no order. Each depends on what was read
// before, so that the processor cannot read ahead (xorshift, Marsaglia 2003).
type places struct {
	of, seed uint64
	last     byte
}

func (p *places) next() uint64 {
	p.seed += uint64(p.last)
	p.seed ^= p.seed << 13
	p.seed ^= p.seed >> 7
	p.seed ^= p.seed << 17
	return p.seed % p.of * line
}
