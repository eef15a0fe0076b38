package telemetry_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// counted reads counters and counts of histograms: name and the values of labels in
// the order of their names ("onceward_x_total refund acme").
func counted(t *testing.T, all ...*telemetry.Telemetry) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for _, told := range all {
		families, err := told.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, pair := range m.GetLabel() {
					name += " " + pair.GetValue()
				}
				sums[name] += valueOf(f.GetType(), m)
			}
		}
	}
	return sums
}

func valueOf(kind dto.MetricType, m *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return m.GetCounter().GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(m.GetHistogram().GetSampleCount())
	default:
		return m.GetGauge().GetValue()
	}
}

// Every move in the audit record is counted once, by whichever process made it:
// openings, attempts, lost answers to settlements, replays, deferrals, look-ups,
// reviews, corrections, cancellations, leases that run out.
func TestEveryMoveIsCountedOnce(t *testing.T) {
	t.Parallel()
	rejected := func(context.Context, actions.Call) actions.Outcome {
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "no", Message: "No.", Correctable: true}}
	}
	w := newWatched(t, stub{typ: "test.gated", approval: true, execute: applied}, stub{typ: "test.rejected", execute: rejected},
		stub{typ: "test.unclear", execute: func(context.Context, actions.Call) actions.Outcome { return actions.Outcome{} }})
	// Its answer comes when its lease has run out.
	late := make(chan struct{})
	w.Adapters = append(w.Adapters, stub{typ: "test.late", timeout: time.Millisecond, execute: func(ctx context.Context, call actions.Call) actions.Outcome {
		<-late
		return applied(ctx, call)
	}})
	book := &forgetful{}
	book.left.Store(2)
	a, first := w.observed(t, 1, func(c *app.Config) {
		c.LeaseGrace = 2 * time.Second
		c.WrapLedger = func(l app.Ledger) app.Ledger { book.Ledger = l; return book }
	})
	b, second := w.observed(t, 1, nil)

	w.AskIn(t, a, patient(apptest.Contact("li@example.test")), succeeded) // its settlement is not answered
	w.AskIn(t, b, patient(apptest.Contact("li@example.test")), succeeded) // a replay
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying}, fakeprovider.Fault{})
	w.AskIn(t, b, patient(apptest.Refund("ch_1", 500, "run_1")), succeeded)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.RateLimited}, fakeprovider.Fault{})
	w.AskIn(t, b, patient(apptest.Refund("ch_2", 500, "run_2")), succeeded)
	w.Provider.Next(fakeprovider.Fault{Kind: fakeprovider.ErrorAfterApplying})
	w.AskIn(t, b, patient(apptest.Invoice("inv_1")), succeeded)
	gated := w.AskIn(t, a, asks("test.gated", "gated"), needsReview).GetOperation()
	resolve(t, w, b, gated, approve())
	w.WaitFor(t, "acme", gated.GetId(), ledger.Succeeded)
	w.AskIn(t, b, patient(asks("test.unclear", "unclear")), needsReview)
	refused := w.Ask(t, b, patient(asks("test.rejected", "refused"))).GetOperation()
	correction := apptest.Note("other", "run")
	correction.ActionType = "test.rejected"
	correction.CorrectsOperationId = refused.GetId()
	w.Ask(t, b, patient(correction))
	withdrawn := w.AskIn(t, a, asks("test.gated", "withdrawn"), needsReview).GetOperation()
	if _, err := a.Actions.CancelOperation(apptest.As(t.Context(), w.Agent), &oncewardv1.CancelOperationRequest{OperationId: withdrawn.GetId()}); err != nil {
		t.Fatal(err)
	}
	slow := w.Ask(t, a, apptest.Waiting(asks("test.late", "late"), 0)).GetOperation()
	w.WaitFor(t, "acme", slow.GetId(), ledger.NeedsReview)
	close(late)
	reused := apptest.Keyed(apptest.Refund("ch_9", 1, "run_9"), "refused")
	reused.ActionType = "test.rejected"
	_, err := w.Try(t.Context(), b, reused)
	apptest.WantReason(t, err, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED")
	_, err = b.Actions.RequestAction(apptest.As(t.Context(), "nonsense"), reused)
	apptest.WantReason(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
	apptest.Eventually(t, func() bool {
		return w.Database.Count(t, `SELECT count(*) FROM operations WHERE status IN ('pending', 'running', 'unknown')`) == 0
	}, w.Describe)
	apptest.Eventually(t, func() bool { return w.Held(t, slow.GetId()).ProviderReference != "" }, w.Describe)
	a.Stop() // so that nothing is on its way
	b.Stop()

	recorded := map[string]float64{}
	rows, err := w.Database.Owner(t).Query(t.Context(), `
		SELECT event || ' ' || to_status, count(*) FROM audit_events
		WHERE event = ANY($1) AND (from_status <> to_status OR from_status = '') GROUP BY 1`, eventNames())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var move string
		var n float64
		if err := rows.Scan(&move, &n); err != nil {
			t.Fatal(err)
		}
		recorded[move] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	all := counted(t, first, second)
	moves := map[string]float64{}
	for name, n := range all {
		if fields := strings.Fields(name); fields[0] == "onceward_moves_total" {
			moves[fields[2]+" "+fields[3]] += n // action type, event, state, tenant
		}
	}
	if !maps.Equal(moves, recorded) || len(recorded) < 10 {
		t.Errorf("counted %v, and the record has %v", moves, recorded)
	}
	for name, want := range map[string]float64{
		"onceward_requests_total test.rejected refused acme":                    1,
		"onceward_key_mismatches_total test.rejected acme":                      1,
		"onceward_refusals_total test.rejected IDEMPOTENCY_KEY_REUSED acme":     1,
		"onceward_unauthenticated_total bad":                                    1,
		"onceward_reviews_opened_total test.gated approval_required acme":       2,
		"onceward_reviews_opened_total test.unclear inconclusive acme":          1,
		"onceward_reviews_decided_total test.gated cancelled acme":              1,
		"onceward_reviews_decided_total test.gated approved acme":               1,
		"onceward_attempts_total test.gated applied stub acme":                  1,
		"onceward_attempts_total email.invoice.send ambiguous fakemail acme":    1,
		"onceward_attempt_duration_seconds applied stub":                        2,
		"onceward_doubts_total email.invoice.send fakemail ambiguous acme":      1,
		"onceward_reconciliations_total email.invoice.send fakemail found acme": 1,
		"onceward_reconciliations_total test.unclear stub escalated acme":       1,
		"onceward_doubt_duration_seconds fakemail succeeded":                    1,
		"onceward_doubt_duration_seconds stub needs_review":                     2,
		"onceward_lease_expiries_total test.late acme":                          1,
		"onceward_doubts_total test.late stub lease_expired acme":               1,
		"onceward_overtaken_total test.late acme":                               1,
		"onceward_attempts_in_flight":                                           0,
		"onceward_attempts_limit":                                               2048, // of two
	} {
		if got := all[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{
		"onceward_reconciler_last_round_timestamp_seconds", "onceward_reconciler_round_duration_seconds",
		"onceward_lookup_duration_seconds fakemail", "onceward_circuit_open fakemail acme",
	} {
		if _, there := all[name]; !there {
			t.Errorf("there is no %s", name)
		}
	}
}

func eventNames() (names []string) {
	for _, e := range ledger.Events() {
		names = append(names, string(e))
	}
	return names
}
