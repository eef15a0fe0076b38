package panels

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

// colours of lines, in the order of series; legible on dark.
func colours() []string {
	return []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c", "#b877d9", "#8ab8ff", "#ffb357", "#c8f2c2", "#e0b400", "#fade2a", "#ca95e5"}
}

const (
	columnWidth = 65 // of one of the grid's columns in a drawing, in its own units
	height      = 150
)

type drawing struct {
	Answer
	Value, Colour    string // tiles
	Top              string // the scale
	Lines            []line
	Column, Span     int
	Width            int // of the drawing
	From, To, Reason string
}

type line struct{ Name, Colour, Points, Last, Max string }

type part struct {
	Title  string
	Panels []drawing
}

// Write draws answers as a page that needs nothing else, each panel where Grafana
// puts it.
func Write(w io.Writer, title string, answers []Answer, fired []Series, span Span) error {
	var parts []part
	for _, a := range answers {
		if len(parts) == 0 || parts[len(parts)-1].Title != a.Row {
			parts = append(parts, part{Title: a.Row})
		}
		last := &parts[len(parts)-1]
		last.Panels = append(last.Panels, draw(a, span))
	}
	names := make([]string, 0, len(fired))
	for _, s := range fired {
		names = append(names, s.Name)
	}
	return template.Must(template.New("page").Parse(page)).Execute(w, map[string]any{
		"Title": title, "Parts": parts, "Alerts": strings.Join(names, ", "),
		"From": span.From.Format("15:04:05"), "To": span.To.Format("15:04:05"), "Height": height,
	})
}

func draw(a Answer, span Span) drawing {
	d := drawing{Answer: a, Column: a.X + 1, Span: a.W, Width: a.W * columnWidth, Value: "no data", Colour: "#3a3f47",
		From: span.From.Format("15:04:05"), To: span.To.Format("15:04:05")}
	if a.Err != nil {
		d.Reason = a.Err.Error()
	}
	if a.Kind == "stat" {
		if a.HasData() {
			last := a.Series[0].Last()
			d.Value, d.Colour = Format(last, a.Unit), paint(last, a.Steps)
			if text, ok := a.Words[fmt.Sprintf("%g", last)]; ok {
				d.Value = text
				if last == 0 {
					d.Colour = "#c4162a"
				}
			}
		}
		return d
	}
	top := 0.0
	for _, s := range a.Series {
		top = max(top, s.Max())
	}
	if top == 0 {
		top = 1
	}
	d.Top = Format(top, a.Unit)
	all := span.To.Sub(span.From).Seconds()
	for i, s := range a.Series {
		var path strings.Builder
		previous := math.Inf(-1)
		for _, p := range s.Points {
			at := p.Timestamp.Time().Sub(span.From).Seconds()
			command := "L"
			if at-previous > 2.5*span.Step.Seconds() { // a gap is not a line
				command = "M"
			}
			previous = at
			fmt.Fprintf(&path, "%s%.1f %.1f", command, at/all*float64(d.Width), height-float64(p.Value)/top*(height-8))
		}
		d.Lines = append(d.Lines, line{
			Name: s.Name, Colour: colours()[i%len(colours())], Points: path.String(),
			Last: Format(s.Last(), a.Unit), Max: Format(s.Max(), a.Unit),
		})
	}
	return d
}

func paint(value float64, steps []Step) string {
	shades := map[string]string{"green": "#37872d", "yellow": "#b08800", "red": "#c4162a"}
	colour := shades["green"]
	for _, s := range steps {
		if s.From == nil || value >= *s.From {
			colour = shades[s.Color]
		}
	}
	return colour
}

// Format writes a value in a unit of Grafana's; one that it does not know stays a number.
func Format(v float64, unit string) string {
	switch unit {
	case "s":
		switch {
		case v == 0:
			return "0 s"
		case v < 1:
			return fmt.Sprintf("%.3g ms", v*1000)
		case v < 120:
			return fmt.Sprintf("%.3g s", v)
		case v < 7200:
			return fmt.Sprintf("%.3g min", v/60)
		}
		return fmt.Sprintf("%.3g h", v/3600)
	case "percentunit":
		return fmt.Sprintf("%.3g %%", v*100)
	case "bytes":
		return fmt.Sprintf("%.4g MiB", v/(1<<20))
	case "ops", "reqps":
		return fmt.Sprintf("%.3g/s", v)
	}
	return fmt.Sprintf("%.5g", v)
}

const page = `<!doctype html><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body{background:#111217;color:#ccccdc;font:13px/1.35 "DejaVu Sans",sans-serif;margin:12px}
h1{font-size:18px;margin:0 0 2px}h2{font-size:15px;margin:14px 0 6px}
.alerts{color:#ff7383}.grid{display:grid;grid-template-columns:repeat(24,1fr);gap:8px}
.panel{background:#181b1f;border:1px solid #2c3235;padding:6px 8px;border-radius:2px;overflow:hidden}
.panel h3{font-size:12px;font-weight:600;margin:0 0 4px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.tile{color:#fff;text-align:center}.tile b{font-size:24px;display:block;padding:6px 0 8px}
svg{width:100%;display:block;background:#14171b}.scale{fill:#8e8e9e;font-size:11px}
table{width:100%;border-collapse:collapse;font-size:11px}td{padding:0 2px;white-space:nowrap}td+td{text-align:right;color:#9e9eae}
td:first-child{max-width:260px;overflow:hidden;text-overflow:ellipsis}
.none{color:#8e8e9e;padding:60px 0;text-align:center}.reason{color:#ff7383}
</style>
<h1>{{.Title}}</h1><div>{{.From}} – {{.To}}{{with .Alerts}} · <span class="alerts">fired: {{.}}</span>{{end}}</div>
{{range .Parts}}<h2>{{.Title}}</h2><div class="grid">
{{range .Panels}}{{if eq .Kind "stat"}}<div class="panel tile" style="grid-column:{{.Column}}/span {{.Span}};background:{{.Colour}}" title="{{.About}}"><h3>{{.Title}}</h3><b>{{.Value}}</b></div>
{{else}}<div class="panel" style="grid-column:{{.Column}}/span {{.Span}}" title="{{.About}}"><h3>{{.Title}}</h3>{{with .Reason}}<div class="reason">{{.}}</div>{{end}}
{{if .Lines}}<svg viewBox="0 0 {{.Width}} {{$.Height}}">{{range .Lines}}<path d="{{.Points}}" fill="none" stroke="{{.Colour}}" stroke-width="1.6"/>{{end}}<text class="scale" x="4" y="12">{{.Top}}</text><text class="scale" x="4" y="{{$.Height}}" dy="-4">{{.From}}</text><text class="scale" x="{{.Width}}" y="{{$.Height}}" dx="-4" dy="-4" text-anchor="end">{{.To}}</text></svg>
<table>{{range .Lines}}<tr><td><span style="color:{{.Colour}}">■</span> {{.Name}}</td><td>last {{.Last}}</td><td>max {{.Max}}</td></tr>{{end}}</table>{{else}}<div class="none">no data</div>{{end}}</div>
{{end}}{{end}}</div>{{end}}
`
