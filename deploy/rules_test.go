package deploy_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const runbooks = "https://github.com/onceward/onceward/blob/main/docs/runbooks.md#"

func readRules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile("prometheus/alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// recorded are the labels of the series that recording rules make: what their
// outermost aggregation keeps.
func recorded(t *testing.T, rules []rulefmt.Rule) map[string][]string {
	t.Helper()
	of := map[string][]string{}
	for _, r := range rules {
		if r.Record == "" {
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(err)
		}
		aggregate, ok := expr.(*parser.AggregateExpr)
		if !ok || aggregate.Without {
			t.Fatalf("%s: want an aggregation by labels, so that these are known", r.Record)
		}
		of[r.Record] = aggregate.Grouping
	}
	return of
}

// TestRulesNameWhatExists holds every rule against the catalogue of metrics.
func TestRulesNameWhatExists(t *testing.T) {
	rules := readRules(t)
	j := judge{metrics: readCatalogue(t), recorded: recorded(t, rules)}
	for _, r := range rules {
		for _, fault := range j.faults(r.Expr) {
			t.Errorf("%s%s: %s", r.Alert, r.Record, fault)
		}
	}
}

var (
	labelUse = regexp.MustCompile(`\$labels\.(\w+)`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
)

// TestAlertsSayWhatToDo: how bad, what, and where the runbook is; and a sentence
// names only labels that the alert has.
func TestAlertsSayWhatToDo(t *testing.T) {
	rules := readRules(t)
	j := judge{metrics: readCatalogue(t), recorded: recorded(t, rules)}
	for _, r := range rules {
		if r.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q is none of critical, warning, info", r.Alert, r.Labels["severity"])
		}
		if want := runbooks + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		has := map[string]bool{}
		for _, by := range grouping.FindAllStringSubmatch(r.Expr, -1) {
			for label := range strings.SplitSeq(by[1], ",") {
				has[strings.TrimSpace(label)] = true
			}
		}
		if len(has) == 0 { // nothing is added up: the series' own
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, label := range j.below(expr) {
				has[label] = true
			}
		}
		for _, name := range []string{"summary", "description"} {
			text := r.Annotations[name]
			if text == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
			for _, use := range labelUse.FindAllStringSubmatch(text, -1) {
				if !has[use[1]] {
					t.Errorf("%s: its %s names the label %s, which the alert does not have", r.Alert, name, use[1])
				}
			}
		}
	}
}

// TestAlertsHaveUnitTests: each alert, by severity, is fired by some series, and not
// by others.
func TestAlertsHaveUnitTests(t *testing.T) {
	files, err := filepath.Glob("prometheus/tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no unit tests in prometheus/tests: %v", err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		var tests struct {
			Tests []struct {
				Name    string `yaml:"name"`
				Queries []struct {
					Expr    string `yaml:"expr"`
					Samples []struct {
						Labels string `yaml:"labels"`
					} `yaml:"exp_samples"`
				} `yaml:"promql_expr_test"`
			} `yaml:"tests"`
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range tests.Tests {
			for _, q := range test.Queries {
				if !strings.Contains(q.Expr, fmt.Sprintf("alertname=%q", test.Name)) {
					t.Errorf("%s: the test %s asks %s: name it after its alert", file, test.Name, q.Expr)
				}
				quiet[test.Name] = quiet[test.Name] || len(q.Samples) == 0
				for _, s := range q.Samples {
					severity := regexp.MustCompile(`severity="(\w+)"`).FindStringSubmatch(s.Labels)
					if severity != nil {
						fires[test.Name+" "+severity[1]] = true
					}
				}
			}
		}
	}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		if key := r.Alert + " " + r.Labels["severity"]; !fires[key] {
			t.Errorf("no unit test fires %s", key)
		}
		if !quiet[r.Alert] {
			t.Errorf("no unit test says when %s does not fire", r.Alert)
		}
	}
}

var section = regexp.MustCompile(`(?m)^## (Onceward\w+)$`)

// TestEveryAlertHasARunbook, and no runbook is for an alert that is gone.
func TestEveryAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile("../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts, sections := map[string]bool{}, map[string]bool{}
	for _, r := range readRules(t) {
		if r.Alert != "" {
			alerts[r.Alert] = true
		}
	}
	parts := section.Split(string(page), -1)
	for i, s := range section.FindAllStringSubmatch(string(page), -1) {
		if sections[s[1]] {
			t.Errorf("docs/runbooks.md has two sections %s", s[1])
		}
		sections[s[1]] = true
		for _, part := range []string{"**Means**", "**How bad**", "**Look at**", "**Do**", "**Do not**"} {
			if !strings.Contains(parts[i+1], part) {
				t.Errorf("docs/runbooks.md: %s has no part %s", s[1], part)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		if !sections[name] {
			t.Errorf("docs/runbooks.md has no section \"## %s\"", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if !alerts[name] {
			t.Errorf("docs/runbooks.md has a section %s, and there is no such alert", name)
		}
	}
}
