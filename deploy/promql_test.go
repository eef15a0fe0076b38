package deploy_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/onceward/onceward/deploy/catalogue"
)

// foreign are series of others than Onceward, with the labels that are used of them:
// of Prometheus itself, of the Go client's standard collectors, and of OpenTelemetry.
func foreign() map[string][]string {
	return map[string][]string{
		"up":                            nil,
		"ALERTS":                        {"alertname", "alertstate", "severity"},
		"process_cpu_seconds_total":     nil,
		"process_resident_memory_bytes": nil,
		"process_open_fds":              nil,
		"process_max_fds":               nil,
		"process_start_time_seconds":    nil,
		"go_goroutines":                 nil,
		// OpenTelemetry's, of gRPC servers.
		"rpc_server_call_duration_seconds_count": {"rpc_method", "rpc_response_status_code"},
	}
}

func readCatalogue(t *testing.T) catalogue.Catalogue {
	t.Helper()
	page, err := os.Open("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = page.Close() }()
	c, err := catalogue.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// judge is what is known of the names that a query may use.
type judge struct {
	metrics catalogue.Catalogue
	// recorded are the labels of series that recording rules make.
	recorded map[string][]string
}

// faults parses a query and says what in it does not exist or makes no sense.
func (j judge) faults(expr string) []string {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	parser.Inspect(root, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			known, metric, ok := j.known(n.Name)
			if !ok {
				add("no such metric: %s", n.Name)
				return nil
			}
			for _, m := range n.LabelMatchers {
				if m.Name == model.MetricNameLabel {
					continue
				}
				if !slices.Contains(known, m.Name) {
					add("%s has no label %s", n.Name, m.Name)
				}
				if m.Type == labels.MatchEqual && slices.Contains([]string{"state", "result", "scope", "kind"}, m.Name) &&
					len(metric.Values) > 0 && !slices.Contains(metric.Values, m.Value) {
					add("%s: no value %q of %s in docs/metrics.md", n.Name, m.Value, m.Name)
				}
			}
			if call := function(path); call != "" && metric.Type != "" {
				cumulative := metric.Type != "gauge"
				if slices.Contains([]string{"rate", "increase"}, call) && !cumulative {
					add("%s of %s, which is a gauge", call, n.Name)
				}
				if slices.Contains([]string{"deriv", "delta"}, call) && cumulative {
					add("%s of %s, which only grows", call, n.Name)
				}
			}
		case *parser.AggregateExpr:
			if n.Without {
				return nil
			}
			below := j.below(n.Expr)
			for _, label := range n.Grouping {
				if !slices.Contains(below, label) {
					add("nothing below \"by (%s)\" has a label %s", strings.Join(n.Grouping, ", "), label)
				}
			}
		}
		return nil
	})
	return faults
}

// known are the labels of a series, those of a scrape included, and its metric where
// it is one of Onceward's.
func (j judge) known(series string) (of []string, m catalogue.Metric, ok bool) {
	scraped := []string{"job", "instance"}
	if m, ok := j.metrics.Find(series); ok {
		of := slices.Concat(scraped, m.Labels)
		if strings.HasSuffix(series, "_bucket") {
			of = append(of, "le")
		}
		return of, m, true
	}
	if of, ok := j.recorded[series]; ok {
		return of, catalogue.Metric{}, true
	}
	of, ok = foreign()[series]
	return append(scraped, of...), catalogue.Metric{}, ok
}

// below are the labels of all series that an expression selects.
func (j judge) below(expr parser.Expr) []string {
	var all []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			of, _, _ := j.known(selector.Name)
			all = append(all, of...)
		}
		return nil
	})
	return all
}

// function is the call right around a range, if there is one.
func function(path []parser.Node) string {
	if len(path) < 2 {
		return ""
	}
	if _, ok := path[len(path)-1].(*parser.MatrixSelector); !ok {
		return ""
	}
	if call, ok := path[len(path)-2].(*parser.Call); ok {
		return call.Func.Name
	}
	return ""
}

// TestJudge sees to it that the checks of the other tests find what they look for.
func TestJudge(t *testing.T) {
	j := judge{metrics: readCatalogue(t), recorded: map[string][]string{"r": {"state"}}}
	for _, c := range []struct{ expr, fault string }{
		{`sum by (tenant) (rate(onceward_requests_total{disposition="executed"}[5m]))`, ""},
		{`sum by (state) (r)`, ""},
		{`histogram_quantile(0.5, sum by (le) (rate(onceward_request_duration_seconds_bucket[5m])))`, ""},
		{`onceward_no_such_thing`, "no such metric: onceward_no_such_thing"},
		{`onceward_requests_total{tennant="a"}`, "no label tennant"},
		{`sum by (provider) (onceward_requests_total)`, "nothing below"},
		{`onceward_operations{state="unsure"}`, `no value "unsure"`},
		{`rate(onceward_operations[5m])`, "which is a gauge"},
		{`deriv(onceward_requests_total[5m])`, "which only grows"},
		{`onceward_request_duration_seconds`, "no such metric"},
		{`onceward_requests_total_bucket`, "no such metric"},
		{`sum by (`, "parse error"},
	} {
		got := strings.Join(j.faults(c.expr), "; ")
		if c.fault == "" && got != "" || !strings.Contains(got, c.fault) {
			t.Errorf("%s: faults %q, want %q", c.expr, got, c.fault)
		}
	}
}
