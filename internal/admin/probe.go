package admin

import (
	"context"
	"sync"
	"time"
)

// ProbeOptions say what is looked at.
type ProbeOptions struct {
	// Look looks once, until ctx ends; nil means that all is well. Required.
	Look func(ctx context.Context) error
	// Interval is between the beginnings of two looks, and Timeout is the longest that
	// one may take; default a second each.
	Interval, Timeout time.Duration
	// Patience is how many looks in a row must fail, or be well again, before the probe
	// believes it; default 2. One look that was slow, or lucky, changes nothing.
	Patience int
	// Looked is told of each look, if set.
	Looked func(err error)
	// Changed is told when the probe changes its mind, if set: why, or nil.
	Changed func(err error)
}

// Probe looks at something at regular times. It is safe for concurrent use.
type Probe struct {
	ProbeOptions

	mu       sync.Mutex
	believed error // nil: all is well
	contrary int   // looks in a row that said otherwise
}

// NewProbe makes a probe that believes that all is well. Run it.
func NewProbe(o ProbeOptions) *Probe {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Patience == 0 {
		o.Patience = 2
	}
	return &Probe{ProbeOptions: o}
}

// Err is what the probe believes now: nil while all is well, else what it saw last.
func (p *Probe) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.believed
}

// Run looks until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	for {
		p.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Probe) look(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := p.Look(within)
	if ctx.Err() != nil {
		return // the process ends, which says nothing of what is looked at
	}
	if p.Looked != nil {
		p.Looked(err)
	}
	if p.weigh(err) && p.Changed != nil {
		p.Changed(err)
	}
}

// weigh takes one look into account, and reports whether it changed the probe's mind.
func (p *Probe) weigh(err error) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (err == nil) == (p.believed == nil) {
		p.believed, p.contrary = err, 0
		return false
	}
	if p.contrary++; p.contrary < p.Patience {
		return false
	}
	p.believed, p.contrary = err, 0
	return true
}
