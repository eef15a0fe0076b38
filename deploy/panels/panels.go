package panels

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Board is what is asked and shown, without how Grafana paints it.
type Board struct {
	Panels []Panel
	// Variables are the names that queries may use with a dollar sign.
	Variables []string
	// Others are queries of variables and annotations.
	Others []string
}

// Panel is one picture.
type Panel struct {
	ID    int
	Row   string
	Title string
	About string
	Kind  string // stat, timeseries
	Unit  string
	// X, Y, W and H are its place in the grid of 24 columns.
	X, Y, W, H int
	Queries    []Query
	Steps      []Step
	// Words replace numbers, by their text.
	Words map[string]string
}

// Query is one question of a panel.
type Query struct{ Expr, Legend string }

// Step says which colour a value has from From on; nil: from the least on.
type Step struct {
	From  *float64 `json:"value"`
	Color string   `json:"color"`
}

type rawBoard struct {
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		GridPos     struct {
			X int `json:"x"`
			Y int `json:"y"`
			W int `json:"w"`
			H int `json:"h"`
		} `json:"gridPos"`
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
		FieldConfig struct {
			Defaults struct {
				Unit       string `json:"unit"`
				Thresholds struct {
					Steps []Step `json:"steps"`
				} `json:"thresholds"`
				Mappings []struct {
					Options map[string]struct {
						Text string `json:"text"`
					} `json:"options"`
				} `json:"mappings"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query string `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
}

var labelValues = regexp.MustCompile(`^label_values\(\s*(.+?)\s*,\s*(\w+)\s*\)$`)

// Read reads a dashboard file of Grafana's (its classic schema, rows not folded).
func Read(file io.Reader) (Board, error) {
	var raw rawBoard
	if err := json.NewDecoder(file).Decode(&raw); err != nil {
		return Board{}, fmt.Errorf("dashboard: %w", err)
	}
	var b Board
	row := ""
	for _, p := range raw.Panels {
		if p.Type == "row" {
			row = p.Title
			continue
		}
		panel := Panel{
			ID: p.ID, Row: row, Title: p.Title, About: p.Description, Kind: p.Type, Unit: p.FieldConfig.Defaults.Unit,
			X: p.GridPos.X, Y: p.GridPos.Y, W: p.GridPos.W, H: p.GridPos.H,
			Steps: p.FieldConfig.Defaults.Thresholds.Steps, Words: map[string]string{},
		}
		for _, t := range p.Targets {
			panel.Queries = append(panel.Queries, Query{Expr: t.Expr, Legend: t.LegendFormat})
		}
		for _, m := range p.FieldConfig.Defaults.Mappings {
			for value, o := range m.Options {
				panel.Words[value] = o.Text
			}
		}
		b.Panels = append(b.Panels, panel)
	}
	for _, v := range raw.Templating.List {
		b.Variables = append(b.Variables, v.Name)
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Query)
		if parts == nil {
			return Board{}, fmt.Errorf("dashboard: variable %s: want label_values(metric, label), not %q", v.Name, v.Query)
		}
		b.Others = append(b.Others, fmt.Sprintf("group by (%s) (%s)", parts[2], parts[1]))
	}
	for _, a := range raw.Annotations.List {
		b.Others = append(b.Others, a.Expr)
	}
	return b, nil
}

// Expand puts values in the place of variables, as Grafana would with "All"
// everywhere, a range of time and Prometheus's own rate interval.
func Expand(expr, rateInterval, span string) string {
	return strings.NewReplacer(
		"$__rate_interval", rateInterval,
		"$__range", span,
		"$tenant", ".*", "$action_type", ".*", "$provider", ".*",
	).Replace(expr)
}
