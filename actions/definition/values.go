package definition

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Duration is a length of time as files write it: "300ms", "30s", "1h30m", and
// whole days "30d".
type Duration time.Duration

// UnmarshalYAML reads a duration. A bare number is refused: it has no unit.
func (d *Duration) UnmarshalYAML(node ast.Node) error {
	parsed, err := parseDuration(textOf(node))
	if err != nil {
		return &valueError{node, err.Error()}
	}
	*d = Duration(parsed)
	return nil
}

// textOf is a scalar as it is written in the file.
func textOf(node ast.Node) string { return node.GetToken().Value }

// maxDuration is longer than anything that is waited for, and short enough to be
// added up.
const maxDuration = 3650 * 24 * time.Hour

func parseDuration(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no length of time: want a number with a unit, such as 300ms, 30s, 1h30m or 30d", text)
	days, isDays := strings.CutSuffix(text, "d")
	if isDays {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, wrong
		}
		if n > uint64(maxDuration/(24*time.Hour)) {
			return 0, fmt.Errorf("%q is longer than %s", text, Duration(maxDuration))
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, wrong
	case d < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case d > maxDuration:
		return 0, fmt.Errorf("%q is longer than %s", text, Duration(maxDuration))
	}
	return d, nil
}

// MarshalYAML writes the duration as it is read.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// String writes whole days as days, and everything else as Go does.
func (d Duration) String() string {
	const day = 24 * time.Hour
	if d != 0 && time.Duration(d)%day == 0 {
		return strconv.FormatInt(int64(time.Duration(d)/day), 10) + "d"
	}
	return time.Duration(d).String()
}

// Std returns the duration as the standard library's.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Size is a number of bytes: 4096, "64KiB", "1MiB".
type Size int64

// maxSize bounds a size.
const maxSize = 64 << 20

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(node ast.Node) error {
	text := textOf(node)
	number, unit := text, int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = n, bytes
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
	if err != nil || n <= 0 {
		return &valueError{node, fmt.Sprintf("%q is no size: want bytes, or a number of KiB or MiB, such as 1MiB", text)}
	}
	if n > maxSize/unit {
		return &valueError{node, fmt.Sprintf("%q is more than %d MiB: it is held in memory", text, maxSize>>20)}
	}
	*s = Size(n * unit)
	return nil
}

// StatusRange is a range of HTTP statuses, both ends in it: 409, "5xx",
// "500-504".
type StatusRange struct{ First, Last int }

const noStatus = `want an HTTP status: 409, "5xx" or "500-504"`

// UnmarshalYAML reads a range.
func (r *StatusRange) UnmarshalYAML(node ast.Node) error {
	text, refused := textOf(node), &valueError{node, noStatus}
	if class, ok := strings.CutSuffix(text, "xx"); ok {
		n, err := strconv.Atoi(class)
		if err != nil || n < 2 || n > 5 {
			return refused
		}
		*r = StatusRange{n * 100, n*100 + 99}
		return nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < 200 || to > 599 || from > to {
		return refused
	}
	*r = StatusRange{from, to}
	return nil
}

// Has reports whether a status is in the range.
func (r StatusRange) Has(status int) bool { return r.First <= status && status <= r.Last }

func (r StatusRange) overlaps(o StatusRange) bool { return r.First <= o.Last && o.First <= r.Last }
