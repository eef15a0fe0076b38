// Package catalogue reads docs/metrics.md: which metrics Onceward has, of which type
// and with which labels. That the page tells the truth is checked where the metrics
// are made (internal/telemetry); who uses them checks against the page.
package catalogue

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Metric is one row of the page.
type Metric struct {
	Name string
	Type string // counter, gauge or histogram
	// Labels are the metric's own, without those that a scrape adds.
	Labels []string
	// Values are label values that the row names, where it names any.
	Values []string
	// Help says what it counts.
	Help string
}

// Catalogue is every metric by its name.
type Catalogue map[string]Metric

var quoted = regexp.MustCompile("`([^`]+)`")

// Read reads the tables of the page. A row that it does not understand is an error
// with its line, so that nothing drops out silently.
func Read(page io.Reader) (Catalogue, error) {
	c := Catalogue{}
	lines := bufio.NewScanner(page)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if !strings.HasPrefix(line, "| `onceward_") {
			continue
		}
		m, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("docs/metrics.md:%d: %w", number, err)
		}
		if _, twice := c[m.Name]; twice {
			return nil, fmt.Errorf("docs/metrics.md:%d: %s is there twice", number, m.Name)
		}
		c[m.Name] = m
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("docs/metrics.md: %w", err)
	}
	if len(c) == 0 {
		return nil, errors.New("docs/metrics.md: no row begins with | `onceward_")
	}
	return c, nil
}

func parse(line string) (Metric, error) {
	cells := strings.Split(strings.Trim(line, "| "), "|")
	if len(cells) != 4 {
		return Metric{}, fmt.Errorf("want 4 columns (metric, type, labels, counts), not %d", len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	m := Metric{Name: strings.Trim(cells[0], "`"), Type: cells[1], Help: cells[3]}
	if !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Type) {
		return Metric{}, fmt.Errorf("%s: no such type of metric: %q", m.Name, m.Type)
	}
	for label := range strings.SplitSeq(cells[2], ",") {
		if label = strings.TrimSpace(label); label != "" {
			m.Labels = append(m.Labels, label)
		}
	}
	for _, value := range quoted.FindAllStringSubmatch(m.Help, -1) {
		m.Values = append(m.Values, value[1])
	}
	return m, nil
}

// Find finds the metric of a series' name; series is also name_bucket, name_sum and
// name_count of a histogram.
func (c Catalogue) Find(series string) (m Metric, ok bool) {
	if m, ok = c[series]; ok {
		return m, m.Type != "histogram" // whose plain name has no series
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if m, ok = c[strings.TrimSuffix(series, suffix)]; ok && strings.HasSuffix(series, suffix) {
			return m, m.Type == "histogram"
		}
	}
	return Metric{}, false
}
