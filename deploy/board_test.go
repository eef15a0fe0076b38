package deploy_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/onceward/onceward/deploy/board"
	"github.com/onceward/onceward/deploy/panels"
)

const boardFile = "grafana/dashboards/onceward.json"

func readBoard(t *testing.T) (raw []byte, b panels.Board) {
	t.Helper()
	raw, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = panels.Read(bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	if len(b.Panels) == 0 {
		t.Fatal("no panels")
	}
	return raw, b
}

// TestBoardIsCurrent: the file is what board makes, and Grafana's own types know
// every field of it.
func TestBoardIsCurrent(t *testing.T) {
	raw, _ := readBoard(t)
	want, err := board.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, want) {
		t.Errorf("%s is not what board makes: run \"go generate ./...\" in deploy/", boardFile)
	}
	if faults := grafanaFaults(raw); len(faults) > 0 {
		t.Errorf("%s: %v", boardFile, faults)
	}
	if grafanaFaults(bytes.Replace(raw, []byte(`"schemaVersion"`), []byte(`"schemaVersoin"`), 1)) == nil {
		t.Error("a field that Grafana does not know passed")
	}
}

// grafanaFaults is what Grafana's types do not know in a dashboard.
func grafanaFaults(raw []byte) cog.BuildErrors {
	plugins.RegisterDefaultPlugins() // else queries pass unread
	var d dashboard.Dashboard        //nolint:staticcheck // as in board
	var faults cog.BuildErrors
	// It returns an empty list of faults as an error, too.
	if err := d.UnmarshalJSONStrict(raw); err != nil && !errors.As(err, &faults) {
		return cog.MakeBuildErrors("dashboard", err)
	}
	return faults
}

// TestBoardNamesWhatExists holds every query against the catalogue of metrics.
func TestBoardNamesWhatExists(t *testing.T) {
	_, b := readBoard(t)
	j := judge{metrics: readCatalogue(t), recorded: recorded(t, readRules(t))}
	check := func(where, expr string) {
		expr = panels.Expand(expr, "1m", "3h")
		if strings.Contains(expr, "$") {
			t.Errorf("%s: a variable that the dashboard does not have: %s", where, expr)
			return
		}
		for _, fault := range j.faults(expr) {
			t.Errorf("%s: %s", where, fault)
		}
	}
	for _, p := range b.Panels {
		for _, q := range p.Queries {
			check(p.Row+": "+p.Title, q.Expr)
		}
	}
	for _, expr := range b.Others {
		check("variables and annotations", expr)
	}
}

// TestBoardShowsEveryMetric: a metric that nobody can see need not be counted.
func TestBoardShowsEveryMetric(t *testing.T) {
	raw, _ := readBoard(t)
	for name := range readCatalogue(t) {
		if !bytes.Contains(raw, []byte(name)) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestPanelsExplainThemselves: each has a title, a sentence, a unit and a question,
// and stands where no other does.
func TestPanelsExplainThemselves(t *testing.T) {
	_, b := readBoard(t)
	taken := map[[2]int]string{}
	titles := map[string]bool{}
	for _, p := range b.Panels {
		if p.Title == "" || p.About == "" || p.Unit == "" || len(p.Queries) == 0 || p.Row == "" {
			t.Errorf("panel %d %q: it lacks a title, description, unit, query or row", p.ID, p.Title)
		}
		if titles[p.Title] {
			t.Errorf("two panels are called %q", p.Title)
		}
		titles[p.Title] = true
		if p.X+p.W > 24 {
			t.Errorf("%q goes beyond the grid's 24 columns", p.Title)
		}
		for x := p.X; x < p.X+p.W; x++ {
			for y := p.Y; y < p.Y+p.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" && other != p.Title {
					t.Fatalf("%q and %q overlap", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if len(p.Queries) > 1 {
			for _, q := range p.Queries {
				if q.Legend == "" {
					t.Errorf("%q: a query among several has no legend", p.Title)
				}
			}
		}
	}
}
