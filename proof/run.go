package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/migrations"
)

// Options say what to prove, and where.
type Options struct {
	// OwnerURL leads to an empty database of the run's own, as a role that may
	// make tables and roles; it is migrated. Dropping it is the caller's business.
	OwnerURL string
	// ServeURL leads to it as the role that serves; default: OwnerURL.
	ServeURL string

	Subjects []Subject
	// Select chooses paths by their names, also those that are a subject's own;
	// nil takes all.
	Select func(path string) bool
	// Progress is told of each path that has ended, if set. Calls do not overlap.
	Progress func(Step)

	// Patience is how long an operation may take to be settled or brought before
	// a person; default 20 s, at most a minute.
	Patience time.Duration
	// Parallel is how many subjects are proved at once; default 8.
	Parallel int
	// Log is the service's; nil drops it.
	Log *slog.Logger
}

// Step is one path that has ended.
type Step struct {
	ActionType string
	Path       PathReport
	Done       int // paths of all subjects that have ended, with this one
	Total      int
}

const (
	defaultPatience = 20 * time.Second
	defaultParallel = 8
)

func (o Options) withDefaults() (Options, error) {
	if o.ServeURL == "" {
		o.ServeURL = o.OwnerURL
	}
	if o.Select == nil {
		o.Select = func(string) bool { return true }
	}
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.OwnerURL == "":
		return o, errors.New("proof: no database")
	case o.Patience < 0 || o.Patience > time.Minute || o.Parallel < 0:
		return o, errors.New("proof: patience wants up to a minute, and parallel a number of subjects")
	}
	return o, nil
}

// Run walks the paths of all subjects and reports what came of them. An error
// means that something could not be run or looked at; what a subject does wrong
// is in the report.
func Run(ctx context.Context, o Options) (_ Report, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return Report{}, err
	}
	r := &run{Options: o, stages: &stages{byID: map[stageID]*stage{}}}
	// Before the adapters are looked at: one may want a table beside the ledger's.
	if _, err := migrations.Up(ctx, o.OwnerURL); err != nil {
		return Report{}, fmt.Errorf("proof: %w", err)
	}
	samples, err := r.look(ctx)
	if err != nil {
		return Report{}, err
	}
	adapters, tenants := make([]actions.Adapter, len(samples)), []string{}
	for i, s := range samples {
		adapters[i] = newRouter(s, r.stages)
		tenants = append(tenants, ownTenant(i))
		for _, p := range s.chosen {
			tenants = append(tenants, p.name)
			r.total++
		}
	}
	if r.total == 0 {
		return Report{}, errors.New("proof: no path was chosen")
	}
	slices.Sort(tenants)
	tenants = slices.Compact(tenants)
	if r.service, err = serve(ctx, o, adapters, tenants, r.stages); err != nil {
		return Report{}, fmt.Errorf("proof: %w", err)
	}
	defer func() { err = errors.Join(err, r.service.Close()) }()

	report := Report{Subjects: make([]SubjectReport, len(samples))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	for i, s := range samples {
		group.Go(func() (err error) {
			report.Subjects[i], err = r.prove(ctx, i, s)
			if err != nil {
				err = fmt.Errorf("proof of %s: %w", s.name(), err)
			}
			return err
		})
	}
	return report, group.Wait()
}

// ownTenant is the tenant of one subject alone, for the path that composes its
// key by the recipe. Every other path has a tenant, and the subjects share it.
func ownTenant(subject int) string { return fmt.Sprintf("subject-%d", subject) }

// run is a run under way.
type run struct {
	Options
	service *service
	stages  *stages

	mu          sync.Mutex
	done, total int
}

// look looks at all subjects and reports every fault.
func (r *run) look(ctx context.Context) ([]*sample, error) {
	samples := make([]*sample, len(r.Subjects))
	errs := make([]error, len(r.Subjects))
	for i, s := range r.Subjects {
		if samples[i], errs[i] = look(ctx, s, r.OwnerURL); errs[i] != nil {
			errs[i] = fmt.Errorf("proof: subject %d: %w", i+1, errs[i])
			continue
		}
		for _, p := range samples[i].paths() {
			if r.Select(p.name) {
				samples[i].chosen = append(samples[i].chosen, p)
			}
		}
	}
	return samples, errors.Join(errs...)
}

// prove walks all paths of one subject.
func (r *run) prove(ctx context.Context, index int, s *sample) (SubjectReport, error) {
	report := SubjectReport{
		ActionType: s.spec.Type, Provider: s.spec.Contract.Provider,
		Paths: make([]PathReport, len(s.chosen)), Dangers: s.dangers(),
	}
	group, walking := errgroup.WithContext(ctx)
	if s.Serial {
		group.SetLimit(1)
	}
	walks := make([]*walk, len(s.chosen))
	for i, p := range s.chosen {
		tenant := p.name
		if p.name == "plain" {
			tenant = ownTenant(index)
		}
		walks[i] = &walk{run: r, sample: s, path: p, tenant: tenant}
		group.Go(func() error {
			if err := walks[i].walk(walking); err != nil {
				return fmt.Errorf("path %s: %w", p.name, err)
			}
			r.tell(s, walks[i].report)
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		err = r.lookForLeaks(ctx, s, walks)
	}
	for i, w := range walks {
		w.lookAgain()
		err = errors.Join(err, w.close())
		report.Paths[i] = w.report
	}
	return report, err
}

func (r *run) tell(s *sample, p PathReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.Progress(Step{ActionType: s.spec.Type, Path: p, Done: r.done, Total: r.total})
}
