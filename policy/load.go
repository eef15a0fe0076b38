package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/internal/strictyaml"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy/policyfile"
)

// Limits of policies. A list that is longer than these is generated, and wants to
// be a prefix.
const (
	maxTenants = 5000
	maxBytes   = 64 << 20 // of all files
	maxGrants  = 200
	maxRules   = 100
	maxBudgets = 50
	maxBounds  = 100
	maxIntents = 50
	maxStages  = 500
	maxServing = 100 // action types of an intent
	maxParts   = 16  // of an intent
	// ruleCost bounds one expression, in CEL's units: some hundred microseconds.
	ruleCost = 20_000
)

// Load compiles policies from files: names and contents. It fails with a
// *strictyaml.FaultsError that has everything that is wrong, and then there are no
// policies. Tables of cases among the files are left alone. That there is none at
// all is a fault: who wants no policies says so ([AllowAll]).
func Load(files map[string][]byte) (*Policies, error) {
	l, err := newLoader()
	if err != nil {
		return nil, err
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if size += len(files[name]); size > maxBytes || len(l.tenants) >= maxTenants {
			l.faults = append(l.faults, strictyaml.Fault{Place: strictyaml.Place{File: name}, Problem: fmt.Sprintf(
				"there are more than %d policies, or %d bytes of them: run another Onceward for the others", maxTenants, maxBytes)})
			break
		}
		l.add(name, files[name])
	}
	if len(l.faults) == 0 && len(l.tenants) == 0 {
		at := strictyaml.Place{File: strings.Join(slices.Sorted(maps.Keys(files)), ", ")}
		l.faults = append(l.faults, strictyaml.Fault{Place: at, Problem: "there are no policies: want .yaml files of kind: policy"})
	}
	if len(l.faults) > 0 {
		return nil, &strictyaml.FaultsError{Faults: strictyaml.Sorted(l.faults)}
	}
	return &Policies{tenants: l.tenants, others: &Policy{}}, nil
}

// loader compiles policies of several files.
type loader struct {
	reader  *policyfile.Reader
	rules   *expr.Env // what rules see
	parts   *expr.Env // what parts of intents see
	tenants map[string]*Policy
	faults  []strictyaml.Fault
}

func newLoader() (*loader, error) {
	language, err := expr.NewLanguage()
	if err != nil {
		return nil, err
	}
	l := &loader{reader: policyfile.NewReader(), tenants: map[string]*Policy{}}
	if l.rules, err = language.Env(ruleVariables()...); err != nil {
		return nil, err
	}
	if l.parts, err = language.Env("args"); err != nil {
		return nil, err
	}
	l.rules, l.parts = l.rules.Within(ruleCost), l.parts.Within(ruleCost)
	return l, nil
}

// add compiles one file.
func (l *loader) add(name string, data []byte) {
	file, doc, faults := l.reader.Policy(name, data)
	if file == nil {
		l.faults = append(l.faults, faults...)
		return
	}
	c := &compiler{loader: l, doc: doc, file: file, ids: map[string]string{}}
	p := c.compile()
	sum := sha256.Sum256(data)
	p.text, p.version = string(data), file.Version+"+"+hex.EncodeToString(sum[:6])
	p.source = &source{doc, file}
	if other, taken := l.tenants[file.Tenant]; taken {
		c.bad("tenant", "%s has a policy in %s too", file.Tenant, other.source.doc.File)
	}
	l.faults = append(l.faults, c.faults...)
	l.tenants[file.Tenant] = p
}

// compiler compiles one file.
type compiler struct {
	*loader
	doc    *strictyaml.Document
	file   *policyfile.File
	ids    map[string]string // of grants, rules and budgets: where they are
	faults []strictyaml.Fault
}

func (c *compiler) bad(field, format string, args ...any) {
	c.faults = append(c.faults, c.doc.Fault(field, fmt.Sprintf(format, args...)))
}

func (c *compiler) compile() *Policy {
	f := c.file
	p := &Policy{tenant: f.Tenant, needsRule: f.Default == "deny", currencies: f.OtherCurrencies == "allow"}
	for _, list := range []struct {
		field     string
		has, most int
	}{
		{"allow", len(f.Allow), maxGrants},
		{"rules", len(f.Rules), maxRules},
		{"budgets", len(f.Budgets), maxBudgets},
		{"per_operation", len(f.PerOperation), maxBounds},
		{"intents", len(f.Intents), maxIntents},
		{"stages.action_types", stagesIn(f), maxStages},
	} {
		if list.has > list.most {
			c.bad(list.field, "has %d entries, want at most %d", list.has, list.most)
			return p
		}
	}
	if f.Tenant == ledger.AllTenants {
		c.bad("tenant", "%q is no tenant", f.Tenant)
	}
	p.zone = c.zone()
	p.stages = c.stages()
	for i, g := range f.Allow {
		p.grants = append(p.grants, c.grant(at("allow", i), g))
	}
	for i, b := range f.Budgets {
		p.budgets = append(p.budgets, c.budget(at("budgets", i), b))
	}
	for i, r := range f.Rules {
		compiled := c.rule(at("rules", i), r)
		c.mistyped(at("rules", i)+".when", p, compiled.when)
		p.rules = append(p.rules, compiled)
		p.readsBudgets = p.readsBudgets || compiled.when != nil && compiled.when.Reads(varBudgets)
	}
	if p.needsRule && !slices.ContainsFunc(f.Rules, func(r policyfile.Rule) bool { return r.Then != "deny" }) {
		c.bad("default", "with deny, and no rule that allows or asks for approval, every request is refused")
	}
	for i, b := range f.PerOperation {
		field := at("per_operation", i)
		if b.MaxAttempts == 0 && b.MaxElapsed == 0 {
			c.bad(field, "want max_attempts, max_elapsed or both")
		}
		p.bounds = append(p.bounds, bounds{c.types(field+".action_types", b.ActionTypes), b.MaxAttempts, b.MaxElapsed.Std()})
	}
	p.intents = c.intents()
	if f.IntentIDQuiet != nil {
		quiet := f.IntentIDQuiet.Std()
		p.callerQuiet = &quiet
	}
	return p
}

func stagesIn(f *policyfile.File) int {
	if f.Stages == nil {
		return 0
	}
	return len(f.Stages.ActionTypes)
}

// at is the path of an item of a list.
func at(list string, i int) string { return list + "[" + index(i) + "]" }

func index(i int) string { return strconv.Itoa(i) }

func (c *compiler) zone() *time.Location {
	name := cmp.Or(c.file.TimeZone, "UTC")
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		c.bad("time_zone", "%q is no time zone that is known here: want an IANA name, such as Europe/Berlin", name)
		return time.UTC
	}
	return zone
}

// types are those that a part of the policy is about; none listed means all.
func (c *compiler) types(field string, patterns []string) names {
	if len(patterns) == 0 {
		return namesOf([]string{"*"})
	}
	c.patterns(field, patterns, checkType)
	return namesOf(patterns)
}

// patterns finds faults in a list of names and prefixes.
func (c *compiler) patterns(field string, patterns []string, check func(string) error) {
	seen := map[string]bool{}
	for i, p := range patterns {
		if err := check(p); err != nil {
			c.bad(at(field, i), "%v", err)
		} else if seen[p] {
			c.bad(at(field, i), "%q is there twice", p)
		}
		seen[p] = true
	}
}

// id takes an id, which is unique among grants, rules and budgets, because
// answers name all of them.
func (c *compiler) id(field, id string) {
	switch other, taken := c.ids[id]; {
	case taken:
		c.bad(field+".id", "%s is the id of %s too", id, other)
	case reserved(id):
		c.bad(field+".id", "%s is the name of a check that answers give: take another", id)
	}
	c.ids[id] = field
}

func (c *compiler) stages() stages {
	out := stages{exact: map[string]ledger.Stage{}}
	if c.file.Stages == nil {
		return out
	}
	out.byDefault = ledger.Stage(c.file.Stages.Default)
	for _, pattern := range slices.Sorted(maps.Keys(c.file.Stages.ActionTypes)) {
		stage := ledger.Stage(c.file.Stages.ActionTypes[pattern])
		field := c.doc.Field("stages", "action_types", pattern)
		if err := checkType(pattern); err != nil {
			c.bad(field, "%v", err)
		}
		switch stage {
		case ledger.StageObserve, ledger.StageProtect, ledger.StageReconcile, ledger.StageEnforce:
		default:
			c.bad(field, "%q: want observe, protect, reconcile or enforce", stage)
		}
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			out.prefixes = append(out.prefixes, prefixStage{prefix, stage})
		} else {
			out.exact[pattern] = stage
		}
	}
	slices.SortStableFunc(out.prefixes, func(a, b prefixStage) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	return out
}
