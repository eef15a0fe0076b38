package postgres

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/ledger"
)

// The statements of observations. Each is used by one method.
var (
	//go:embed sql/observe.sql
	observeText string
	//go:embed sql/observations.sql
	observationsSQL string
	//go:embed sql/observed_tenants.sql
	observedTenantsSQL string
	//go:embed sql/sweep_observations.sql
	sweepObservationsSQL string
	//go:embed sql/sweep_observed_keys.sql
	sweepObservedKeysSQL string

	observeSQL = prepare(observeText)
)

// Every method of this file fails with ledger.ErrNoStatistics on a schema that
// is older than observations.

// chargeJSON is a charge as observations hold it.
type chargeJSON struct {
	Budget    string `json:"budget"`
	Subject   string `json:"subject"`
	Counter   string `json:"counter"`
	Kind      string `json:"kind"`
	Amount    string `json:"amount"`
	Limit     string `json:"limit"`
	Unit      string `json:"unit,omitempty"`
	Zone      string `json:"zone,omitempty"`
	SlidingUS int64  `json:"sliding_us,omitempty"`
}

// fenceJSON is a fence as observations hold it.
type fenceJSON struct {
	Intent  string `json:"intent"`
	QuietUS int64  `json:"quiet_us,omitempty"`
}

// verdictJSON is a verdict as observations hold it.
type verdictJSON struct {
	Decision      string `json:"decision,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Rule          string `json:"rule,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"`
}

// Observe records a request in the stage observe, and returns what would have
// been done with it: as o says or, if it would have become an operation
// (ledger.ObservedExecute, ledger.ObservedRequireApproval), whether its key was
// observed before, with the same action type and arguments or with others. It
// touches no operation, budget or intent. A key is remembered as long as
// [Store.SweepObservations] keeps it, whatever its action type's window is.
//
// ledger.ErrUnavailable: it may have been recorded or not.
func (s *Store) Observe(ctx context.Context, o ledger.Observation) (outcome ledger.ObservedOutcome, err error) {
	run, err := jsonText("run", o.Run)
	if err != nil {
		return "", err
	}
	verdict, err := jsonText("verdict", verdictJSON(o.Verdict))
	if err != nil {
		return "", err
	}
	charges, err := chargesText(o.Charges)
	if err != nil {
		return "", err
	}
	fences, err := fencesText(o.Fences)
	if err != nil {
		return "", err
	}
	err = s.pool.QueryRow(ctx, observeSQL.sql, observeSQL.args(pgx.NamedArgs{
		"tenant": o.Tenant, "id": o.ID, "actor": ledger.StorableText(o.Actor), "action_type": ledger.StorableText(o.ActionType),
		"key": o.Key, "args_hash": o.ArgsHash[:], "run": run, "outcome": string(o.Outcome),
		"verdict": verdict, "amount": o.Amount, "currency": ledger.StorableText(o.Currency), "charges": charges, "fences": fences,
	})...).Scan(&outcome)
	return outcome, statisticsError(err)
}

// chargesText is charges as JSON, or nil for none.
func chargesText(charges []ledger.Charge) (*string, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	all := make([]chargeJSON, len(charges))
	for i, c := range charges {
		all[i] = chargeJSON{
			Budget: c.Budget, Subject: c.Subject, Counter: c.Counter, Kind: string(c.Kind), Amount: c.Amount, Limit: c.Limit,
			Unit: c.Window.Unit, Zone: c.Window.Zone, SlidingUS: micros(c.Window.Sliding),
		}
	}
	return jsonText("charges", all)
}

// fencesText is fences as JSON, or nil for none.
func fencesText(fences []ledger.Fence) (*string, error) {
	if len(fences) == 0 {
		return nil, nil
	}
	all := make([]fenceJSON, len(fences))
	for i, f := range fences {
		all[i] = fenceJSON{Intent: f.Intent, QuietUS: micros(f.Quiet)}
	}
	return jsonText("fences", all)
}

// jsonText is a value for a column of type json, which takes whatever is JSON.
func jsonText(what string, value any) (*string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("ledger: %s of an observation: %w", what, err)
	}
	text := string(data)
	return &text, nil
}

// ObservedTenants lists the tenants of whom something was observed, by name.
func (s *Store) ObservedTenants(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, observedTenantsSQL)
	if err != nil {
		return nil, statisticsError(err)
	}
	tenants, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return tenants, statisticsError(err)
}

// Observations tells each observation of a tenant, from one time until before
// another, in the order of time. It ends with the first error of each.
func (s *Store) Observations(ctx context.Context, tenant string, from, to time.Time, each func(ledger.Observed) error) error {
	rows, err := s.pool.Pool.Query(ctx, observationsSQL, pgx.NamedArgs{"tenant": tenant, "from": from, "to": to})
	if err != nil {
		return statisticsError(err)
	}
	defer rows.Close()
	for rows.Next() {
		o, err := scanObserved(rows)
		if err != nil {
			return err
		}
		if err := each(o); err != nil {
			return err
		}
	}
	return statisticsError(rows.Err())
}

func scanObserved(row pgx.Row) (ledger.Observed, error) {
	var o ledger.Observed
	var hash []byte
	var run, verdict, charges, fences string
	err := row.Scan(&o.Tenant, &o.ID, &o.At, &o.Actor, &o.ActionType, &o.Key, &hash, &run, &o.Outcome, &verdict, &o.Amount, &o.Currency, &charges, &fences)
	if err != nil {
		return ledger.Observed{}, statisticsError(err)
	}
	o.ArgsHash = ledger.Hash(hash) // a constraint holds its length
	var v verdictJSON
	var cs []chargeJSON
	var fs []fenceJSON
	for _, column := range []struct {
		name, text string
		into       any
	}{{"run_json", run, &o.Run}, {"verdict_json", verdict, &v}, {"charges_json", charges, &cs}, {"fences_json", fences, &fs}} {
		if column.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(column.text), column.into); err != nil {
			return ledger.Observed{}, fmt.Errorf("ledger: %s of observation %s: %w", column.name, o.ID, err)
		}
	}
	o.Verdict = ledger.Verdict(v)
	for _, c := range cs {
		o.Charges = append(o.Charges, ledger.Charge{
			Budget: c.Budget, Subject: c.Subject, Counter: c.Counter, Kind: ledger.ChargeKind(c.Kind), Amount: c.Amount, Limit: c.Limit,
			Window: ledger.Window{Unit: c.Unit, Zone: c.Zone, Sliding: time.Duration(c.SlidingUS) * time.Microsecond},
		})
	}
	for _, f := range fs {
		o.Fences = append(o.Fences, ledger.Fence{Intent: f.Intent, Quiet: time.Duration(f.QuietUS) * time.Microsecond})
	}
	return o, nil
}

// SweepObservations forgets observations and the keys that they took after keep,
// at most limit of each. It returns how many rows went; fewer than limit means
// that no more are due.
func (s *Store) SweepObservations(ctx context.Context, limit int, keep time.Duration) (swept int64, err error) {
	return s.sweepBoth(ctx, sweepObservationsSQL, keep, sweepObservedKeysSQL, keep, limit)
}
