package panels

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"text/template"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Span is the range of time that is asked for.
type Span struct {
	From, To time.Time
	// Step is between two points; RateInterval is what $__rate_interval becomes, four
	// scrapes or more.
	Step, RateInterval time.Duration
}

// Answer is a panel with what Prometheus said.
type Answer struct {
	Panel
	Series []Series
	// Err is the first question that could not be answered.
	Err error
}

// Series is one line, its name as the legend has it.
type Series struct {
	Name   string
	Points []model.SamplePair
}

// Last is the newest value.
func (s Series) Last() float64 { return float64(s.Points[len(s.Points)-1].Value) }

// Max is the greatest value.
func (s Series) Max() float64 {
	most := s.Points[0].Value
	for _, p := range s.Points {
		most = max(most, p.Value)
	}
	return float64(most)
}

// HasData says whether there is anything to see: a point that is a number.
func (a Answer) HasData() bool { return len(a.Series) > 0 }

// Moved says whether anything but zero was seen.
func (a Answer) Moved() bool {
	for _, s := range a.Series {
		if s.Max() != 0 {
			return true
		}
	}
	return false
}

// Ask asks every question of a board. A question that fails is in its answer; the
// error is ctx's alone.
func Ask(ctx context.Context, api v1.API, b Board, span Span) ([]Answer, error) {
	answers := make([]Answer, 0, len(b.Panels))
	for _, p := range b.Panels {
		a := Answer{Panel: p}
		for _, q := range p.Queries {
			series, err := ask(ctx, api, q, span)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			a.Series = append(a.Series, series...)
			if err != nil && a.Err == nil {
				a.Err = fmt.Errorf("%s: %w", q.Expr, err)
			}
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func ask(ctx context.Context, api v1.API, q Query, span Span) ([]Series, error) {
	expr := Expand(q.Expr, seconds(span.RateInterval), seconds(span.To.Sub(span.From)))
	value, _, _, err := api.QueryRange(ctx, expr, v1.Range{Start: span.From, End: span.To, Step: span.Step})
	if err != nil {
		return nil, err
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("want a matrix, not %s", value.Type())
	}
	var all []Series
	for _, stream := range matrix {
		s := Series{Name: legend(q.Legend, stream.Metric)}
		for _, p := range stream.Values {
			if v := float64(p.Value); v-v == 0 { // neither NaN nor infinite
				s.Points = append(s.Points, p)
			}
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// legend fills in {{label}} as Grafana does; a legend that is empty is the labels.
func legend(format string, metric model.Metric) string {
	if format == "" {
		return metric.String()
	}
	for name, value := range metric {
		format = strings.ReplaceAll(format, "{{"+string(name)+"}}", string(value))
	}
	return format
}

// seconds writes a time as PromQL does.
func seconds(d time.Duration) string { return fmt.Sprintf("%ds", max(1, int(d.Seconds()))) }

// Fired are the alerts that fired in the range of time, each with how long.
func Fired(ctx context.Context, api v1.API, span Span) ([]Series, error) {
	return ask(ctx, api, Query{Expr: `max by (alertname, severity) (ALERTS{alertstate="firing"})`, Legend: "{{alertname}} ({{severity}})"}, span)
}

// configuration of a Prometheus of our own: everything each second, targets from a
// file that may change while it runs, and the rules that ship.
const configuration = `global:
  scrape_interval: {{.Scrape}}
  evaluation_interval: {{.Scrape}}
rule_files: ["{{.Rules}}"]
scrape_configs:
  - job_name: onceward
    file_sd_configs: [{files: ["{{.Targets}}"], refresh_interval: 1s}]
`

// Configuration is a file for a Prometheus that scrapes the targets which a file
// names (file_sd), every scrape.
func Configuration(scrape time.Duration, rules, targets string) (string, error) {
	if strings.ContainsAny(rules+targets, "\"\n") {
		return "", errors.New("a path with a quote or a line break")
	}
	var out strings.Builder
	err := template.Must(template.New("prometheus.yml").Parse(configuration)).Execute(&out, map[string]string{
		"Scrape": seconds(scrape), "Rules": rules, "Targets": targets,
	})
	return out.String(), err
}
