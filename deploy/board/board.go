package board

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// row is a heading and what stands below it.
type row struct {
	title  string
	panels []panel
}

// panel is one picture.
type panel struct {
	title string
	// about says what is to be seen, and when it is bad.
	about string
	// unit is Grafana's name of it: "s", "reqps", "short", "percentunit", …
	unit string
	look look
	// width is in the grid's 24 columns.
	width   uint32
	queries []query
	// limits colour a tile from a value on, ascending; below the first it is green.
	limits []limit
	// says replaces a number by a word in a colour; for tiles.
	says map[string]word
}

type look int

const (
	lines   look = iota // several series over time
	stacked             // parts of a whole over time
	tile                // the last value, large
)

type query struct{ expr, legend string }

type limit struct {
	from  float64
	color string
}

type word struct{ text, color string }

const (
	green  = "green"
	yellow = "yellow"
	red    = "red"

	tileHeight  = 4
	graphHeight = 8
)

// JSON renders the dashboard as Grafana reads it. The same program renders the
// same bytes.
func JSON() ([]byte, error) {
	b := dashboard.NewDashboardBuilder("Onceward"). //nolint:staticcheck // the schema that every Grafana reads; the next one is of 12 and later
							Uid("onceward").
							Description("Is every write applied at most once, is what is unknown being resolved, and who waits for whom. "+
			"Made by deploy/board: change it there, not here.").
		Tags([]string{"onceward"}).
		Refresh("30s").
		Time("now-3h", "now").
		Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Runbooks").Type(dashboard.DashboardLinkTypeLink).Icon("doc").
			Url("https://github.com/onceward/onceward/blob/main/docs/runbooks.md").TargetBlank(true))
	variables(b)
	annotations(b)
	id := uint32(1)
	for _, r := range rows() {
		b.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		id++
		for _, p := range r.panels {
			b.WithPanel(p.build(id))
			id++
		}
	}
	board, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("board: %w", err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // PromQL is full of < and >
	e.SetIndent("", "  ")
	if err := e.Encode(board); err != nil {
		return nil, fmt.Errorf("board: %w", err)
	}
	return out.Bytes(), nil
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

func variables(b *dashboard.DashboardBuilder) { //nolint:staticcheck // as in JSON
	b.WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for _, v := range []struct{ name, label, metric string }{
		{"tenant", "Tenant", "onceward_requests_total"},
		{"action_type", "Action type", "onceward_requests_total"},
		{"provider", "Provider", "onceward_attempts_total"},
	} {
		b.WithVariable(dashboard.NewQueryVariableBuilder(v.name).Label(v.label).Datasource(source()).
			Query(dashboard.StringOrMap{String: cog.ToPtr(fmt.Sprintf("label_values(%s, %s)", v.metric, v.name))}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
			Multi(true).IncludeAll(true).AllValue(".*").
			Current(dashboard.VariableOption{
				Text:  dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
				Value: dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
			}))
	}
}

// annotations mark on every picture when writes were stopped on purpose, and when
// somebody was woken.
func annotations(b *dashboard.DashboardBuilder) { //nolint:staticcheck // as in JSON
	b.Annotation(dashboard.NewAnnotationQueryBuilder().Name("Kill switches").Datasource(source()).Enable(true).
		IconColor("purple").Expr("max by (scope) (onceward_kill_switches) > 0").Step("60s").TitleFormat("stopped: {{scope}}"))
	b.Annotation(dashboard.NewAnnotationQueryBuilder().Name("Critical alerts").Datasource(source()).Enable(true).
		IconColor("red").Expr(`ALERTS{alertname=~"Onceward.*", alertstate="firing", severity="critical"}`).Step("60s").
		TitleFormat("{{alertname}}"))
}

func (p panel) build(id uint32) cog.Builder[dashboard.Panel] {
	if p.look == tile {
		b := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(source()).Unit(p.unit).
			Span(p.width).Height(tileHeight).Thresholds(p.thresholds()).
			ColorMode(common.BigValueColorModeBackground).GraphMode(common.BigValueGraphModeNone).
			Orientation(common.VizOrientationAuto).ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
			NoValue("no data").Mappings(p.mappings())
		for i, q := range p.queries {
			b.WithTarget(q.build(i))
		}
		return b
	}
	b := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(source()).Unit(p.unit).
		Span(p.width).Height(graphHeight).Min(0).LineWidth(2).FillOpacity(8).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeTable).
			Placement(common.LegendPlacementBottom).Calcs([]string{"lastNotNull", "max"}).SortBy("Max").SortDesc(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.look == stacked {
		b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(40).LineWidth(1)
	}
	if len(p.limits) > 0 {
		b.Thresholds(p.thresholds()).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	for i, q := range p.queries {
		b.WithTarget(q.build(i))
	}
	return b
}

func (q query) build(i int) cog.Builder[variants.Dataquery] {
	return prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A' + i))).
		Datasource(source()).Range().EditorMode(prometheus.QueryEditorModeCode)
}

func (p panel) thresholds() *dashboard.ThresholdsConfigBuilder {
	steps := []dashboard.Threshold{{Color: green}}
	for _, l := range p.limits {
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(l.from), Color: l.color})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

func (p panel) mappings() []dashboard.ValueMapping {
	if len(p.says) == 0 {
		return nil
	}
	options := map[string]dashboard.ValueMappingResult{}
	for value, w := range p.says {
		options[value] = dashboard.ValueMappingResult{Text: cog.ToPtr(w.text), Color: cog.ToPtr(w.color)}
	}
	return []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}}
}
