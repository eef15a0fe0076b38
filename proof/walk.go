package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onceward/onceward/ledger"
)

// walk is one path of one subject on its way.
type walk struct {
	*run
	sample *sample
	path   *path
	tenant string
	stage  *stage // nil for a static path, and before it is opened
	closed bool
	report PathReport
}

// walk walks the path and fills in the report. Its error means that the path
// could not be walked for a reason that is not the subject's.
func (w *walk) walk(ctx context.Context) (err error) {
	began := time.Now()
	w.report = PathReport{Path: w.path.name, Title: w.path.title}
	defer func() { w.report.Took = time.Since(began) }()
	if w.path.static != nil {
		w.report.judge(w.path.static(w.sample))
		return nil
	}
	adapter, target, err := w.sample.Open(ctx, Env{LedgerURL: w.OwnerURL, Tenant: w.tenant})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	w.stage = newStage(w.sample, w.path, w.tenant, adapter, target)
	w.stages.add(w.stage)
	if w.sample.Serial { // the next path uses the same target
		defer func() { err = errors.Join(err, w.close()) }()
	}
	defer w.stage.letGo()
	if w.path.prepare != nil {
		if err := w.path.prepare(w.stage); err != nil {
			w.report.judge(verdictf(NotApplicable, "%s", err))
			return nil
		}
	}
	played, err := w.play(ctx)
	if err != nil {
		return err
	}
	return w.conclude(ctx, played)
}

// play walks the path, and makes a judgement of a request that was refused.
func (w *walk) play(ctx context.Context) (judgement, error) {
	// Some more than an answer is waited for: an answer that says "not yet" is
	// judged, not the silence.
	ctx, cancel := context.WithTimeout(ctx, w.Patience+w.Patience/2)
	defer cancel()
	play := w.path.play
	if play == nil {
		play = func(ctx context.Context, s *stage, c *client) (judgement, error) {
			_, err := c.request(ctx, s, s.example)
			return judgement{verdict: Safe}, err
		}
	}
	played, err := play(ctx, w.stage, &w.service.client)
	var broken error
	select {
	case broken = <-w.stage.failed:
	default:
	}
	switch {
	case broken != nil:
		return judgement{}, broken
	case err == nil:
		return played, nil
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return verdictf(Stuck, "no answer in time"), nil
	case status.Code(err) == codes.Unavailable, status.Code(err) == codes.Canceled, status.Code(err) == codes.Unknown:
		return judgement{}, err // the run's own service
	default:
		return verdictf(Stuck, "the request was refused: %s", status.Convert(err).Message()), nil
	}
}

// conclude waits until the target is quiet and judges what is there.
func (w *walk) conclude(ctx context.Context, played judgement) error {
	quiet, cancel := context.WithTimeout(ctx, longestTimeout)
	defer cancel()
	w.stage.letGo()
	if err := w.stage.target.Quiet(quiet); err != nil {
		return fmt.Errorf("the target is not done: %w", err)
	}
	e, err := w.gather(ctx)
	if err != nil {
		return err
	}
	w.report.fill(e)
	// What the target holds weighs more than what an answer looked like, and both
	// more than what the path wants on top.
	j := w.stage.judge(e)
	if !j.verdict.Failed() && played.verdict != Safe {
		j = played
	}
	if j.verdict == Safe && w.path.want != nil {
		j = w.path.want(w.stage, e)
	}
	left := e.pending
	if w.path.endless && w.report.Lookups > 0 {
		left--
	}
	if j.verdict == Safe && left > 0 {
		j = verdictf(NotApplicable, "nothing met the fault: %d of those that were scripted are left", left)
	}
	w.report.judge(j)
	return nil
}

// gather collects what the path left behind.
func (w *walk) gather(ctx context.Context) (e evidence, err error) {
	// After the ledger: what it says by then the target must hold by then.
	defer func() {
		e.effects, e.requests, e.pending = w.stage.target.Effects(), w.stage.target.Requests(), w.stage.target.Pending()
	}()
	ops, err := w.service.owner.List(ctx, w.tenant, ledger.Filter{ActionType: w.sample.spec.Type}, "", 2)
	if err != nil {
		return e, fmt.Errorf("reading the ledger: %w", err)
	}
	if len(ops) == 0 {
		return e, nil
	}
	op, err := w.service.owner.Get(ctx, w.tenant, ops[0].ID)
	if err != nil {
		return e, fmt.Errorf("reading the ledger: %w", err)
	}
	e.op = &op
	return e, nil
}

// lookAgain looks at the target once more, when all paths are over: what an
// adapter still does in the background is a second effect too.
func (w *walk) lookAgain() {
	if w.stage == nil || w.sample.Serial || w.report.Verdict != Safe {
		return
	}
	e := evidence{effects: w.stage.target.Effects(), requests: w.stage.target.Requests()}
	if effects, sent := len(e.effects), len(e.writes()); effects != w.report.Effects || sent != w.report.Writes {
		w.report.judge(verdictf(Unsafe, "after its end %d more writes came, with %d more effects", sent-w.report.Writes, effects-w.report.Effects))
		w.report.Effects, w.report.Writes = effects, sent
	}
}

// close ends the target.
func (w *walk) close() error {
	if w.stage == nil || w.closed {
		return nil
	}
	w.closed = true
	w.stages.remove(w.stage)
	return w.stage.target.Close()
}

func (p *PathReport) judge(j judgement) { p.Verdict, p.Detail = j.verdict, j.detail }

// fill takes over what was counted.
func (p *PathReport) fill(e evidence) {
	p.Writes = len(e.writes())
	p.Lookups = len(e.requests) - p.Writes
	p.Effects = len(e.effects)
	if e.op == nil {
		return
	}
	p.State, p.Attempts = string(e.op.State), len(e.op.Attempts)
	if e.op.State != ledger.Succeeded {
		p.Reason = whyNot(*e.op)
	}
}
