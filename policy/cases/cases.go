package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/policy/policyfile"
)

// Table is a table of cases that was read.
type Table struct {
	File *policyfile.Cases
	doc  *strictyaml.Document
}

// Read reads a table. It fails with a *strictyaml.FaultsError.
func Read(name string, data []byte) (*Table, error) {
	file, doc, faults := policyfile.NewReader().Cases(name, data)
	if len(faults) > 0 {
		return nil, &strictyaml.FaultsError{Faults: faults}
	}
	return &Table{file, doc}, nil
}

// Result is what came of one case.
type Result struct {
	Name  string
	Place strictyaml.Place
	// Differences say what was decided otherwise than wanted; none: the case holds.
	Differences []string
	Decision    policy.Decision
}

// Run decides each case by the one policy among policies. The action types are specs
// and those that the table describes. Arguments that do not fit the schema of one of
// specs are refused as the service refuses them, and adapters are not asked. It fails with a *strictyaml.FaultsError where
// the table itself is wrong: an unknown action type or budget, arguments that are
// none.
func (t *Table) Run(policies *policy.Policies, specs []actions.Spec) ([]Result, error) {
	tenants := policies.Tenants()
	if len(tenants) != 1 {
		return nil, fmt.Errorf("%s: policy: want a file with one policy", t.doc.File)
	}
	r := &runner{table: t, tenant: tenants[0], policy: policies.For(tenants[0]), actions: map[string]*actionType{}}
	for _, s := range specs {
		r.compile(s, "")
	}
	for _, name := range slices.Sorted(maps.Keys(t.File.ActionTypes)) {
		field := t.doc.Field("action_types", name)
		if _, taken := r.actions[name]; taken {
			r.bad(field, "is declared by the files with actions too: leave it out here")
			continue
		}
		r.compile(specOf(name, t.File.ActionTypes[name]), field)
	}
	var results []Result
	for i, c := range t.File.Cases {
		results = append(results, r.decide(i, c))
	}
	if len(r.faults) > 0 {
		return nil, &strictyaml.FaultsError{Faults: strictyaml.Sorted(r.faults)}
	}
	return results, nil
}

// runner runs one table.
type runner struct {
	table   *Table
	tenant  string
	policy  *policy.Policy
	actions map[string]*actionType
	faults  []strictyaml.Fault
}

// actionType is one that cases request.
type actionType struct {
	terms  *policy.Action
	schema *actions.Schema // nil where the table describes it
}

func (r *runner) bad(field, format string, args ...any) {
	r.faults = append(r.faults, r.table.doc.Fault(field, fmt.Sprintf(format, args...)))
}

func (r *runner) compile(s actions.Spec, field string) {
	terms, err := policy.Compile(s)
	var schema *actions.Schema
	if err == nil && len(s.Schema) > 0 {
		if schema, err = actions.CompileSchema(s.Type, s.Schema); err != nil {
			err = fmt.Errorf("action type %s: %w", s.Type, err)
		}
	}
	if err != nil {
		r.bad(field, "%v", err)
		return
	}
	r.actions[s.Type] = &actionType{terms, schema}
}

// specOf makes as much of an action type as policies look at.
func specOf(name string, t policyfile.ActionType) actions.Spec {
	risks := map[string]actions.Risk{"low": actions.RiskLow, "medium": actions.RiskMedium, "high": actions.RiskHigh}
	return actions.Spec{
		Type: name, Version: "1", Owner: t.Owner, Risk: risks[t.Risk], RequiresApproval: t.RequiresApproval,
		Spending: actions.Spending{Amount: t.Amount, Currency: t.Currency, Counterparty: t.Counterparty},
		Contract: actions.Contract{Provider: t.Provider, Version: "1"},
	}.WithDefaults()
}

// defaultAt is when requests happen that do not say when: a Thursday at noon.
const defaultAt = "2026-01-01T12:00:00Z"

// decide runs one case.
func (r *runner) decide(i int, c policyfile.Case) Result {
	field := fmt.Sprintf("cases[%d]", i)
	result := Result{Name: c.Name, Place: r.table.doc.Place(field)}
	before := len(r.faults)
	request, used := r.request(field+".request", i, c.Request)
	if len(r.faults) > before {
		return result
	}
	charges := r.policy.Charges(request)
	for _, charge := range charges {
		request.Use = append(request.Use, ledger.BudgetUse{Charge: charge, Used: cmpOr(string(used[charge.Budget]), "0")})
	}
	result.Decision = r.decision(request)
	_, wantsCharges := r.valueAt(i, "want")["charges"]
	result.Differences = compare(&c.Want, wantsCharges, &result.Decision, request.Use)
	return result
}

// ruleArguments is what a policy calls it when arguments do not say what is needed.
const ruleArguments = "arguments"

// decision is what the service would decide: what needs no arguments first, then
// the schema, then the policy.
func (r *runner) decision(request *policy.Request) policy.Decision {
	spec := &request.Action.Spec
	d := r.policy.DecideType(request.Principal, spec)
	schema := r.actions[spec.Type].schema
	if d.Effect == policy.Deny || schema == nil {
		return r.policy.Decide(request)
	}
	err := schema.Validate(request.Args)
	if err == nil {
		return r.policy.Decide(request)
	}
	d.Effect, d.Rule, d.Reason, d.Err = policy.Deny, ruleArguments, "the arguments do not fit the schema of the action type", err
	var bad *actions.ArgumentsError
	if errors.As(err, &bad) {
		d.Err = nil // the violations say it
		for _, v := range bad.Violations {
			d.Violations = append(d.Violations, v.InRequest())
		}
	}
	return d
}

// request makes the request of a case, with what is used of budgets.
func (r *runner) request(field string, i int, asked policyfile.Asked) (*policy.Request, map[string]policyfile.Decimal) {
	defaults := policyfile.Asked{Roles: []string{string(policy.Agent)}, At: defaultAt, Run: &policyfile.Run{}}
	args := r.valueAt(i, "request")["args"]
	if d := r.table.File.Defaults; d != nil {
		defaults = overlay(defaults, *d)
		if args == nil && d.Args != nil {
			root, _ := r.table.doc.Value.(map[string]any)
			own, _ := root["defaults"].(map[string]any)
			args = own["args"]
		}
	}
	asked = overlay(defaults, asked)
	action, ok := r.actions[asked.ActionType]
	if !ok {
		r.bad(field+".action_type", "there is no action type %q: describe it under action_types, or name the files that declare it (--config)", asked.ActionType)
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, asked.At)
	if err != nil {
		r.bad(field+".at", "%q is no time: want one such as %s", asked.At, defaultAt)
	}
	for id := range asked.Use {
		if !slices.Contains(r.policy.Budgets(), id) {
			r.bad(field+".use", "the policy has no budget %q", id)
		}
	}
	parsed, err := argumentsOf(args)
	if err != nil {
		r.bad(field+".args", "%v", err)
	}
	out := &policy.Request{
		Principal: policy.Principal{Tenant: r.tenant, Actor: asked.Actor},
		Action:    action.terms, Args: parsed, IntentID: asked.IntentID, At: at,
		Run: ledger.Run{
			RunID: asked.Run.ID, StepID: asked.Run.Step, Agent: asked.Run.Agent, ToolVersion: asked.Run.ToolVersion, Attempt: asked.Run.Attempt,
		},
	}
	for _, role := range asked.Roles {
		out.Principal.Roles = append(out.Principal.Roles, policy.Role(role))
	}
	return out, asked.Use
}

// overlay puts what a request says over what it does not.
func overlay(under, over policyfile.Asked) policyfile.Asked {
	over.ActionType = cmpOr(over.ActionType, under.ActionType)
	over.Actor = cmpOr(over.Actor, under.Actor)
	over.IntentID = cmpOr(over.IntentID, under.IntentID)
	over.At = cmpOr(over.At, under.At)
	if over.Roles == nil {
		over.Roles = under.Roles
	}
	if over.Run == nil {
		over.Run = under.Run
	}
	if over.Use == nil {
		over.Use = under.Use
	}
	return over
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// valueAt is an object of a case as it was read, with exact numbers.
func (r *runner) valueAt(i int, name string) map[string]any {
	root, _ := r.table.doc.Value.(map[string]any)
	list, _ := root["cases"].([]any)
	if i >= len(list) {
		return nil
	}
	own, _ := list[i].(map[string]any)
	value, _ := own[name].(map[string]any)
	return value
}

func argumentsOf(value any) (actions.Arguments, error) {
	if value == nil {
		return actions.Arguments{}, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return actions.Arguments{}, err
	}
	return actions.ParseArguments(text)
}

// sameNumber compares two decimals by value.
func sameNumber(a, b string) bool {
	x, ok1 := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok1 && ok2 && x.Cmp(y) == 0
}
