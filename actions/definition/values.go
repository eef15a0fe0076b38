package definition

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/onceward/onceward/internal/strictyaml"
)

// Duration is a length of time as files write it: "300ms", "30s", "1h30m", and
// whole days "30d".
type Duration = strictyaml.Duration

// Size is a number of bytes: 4096, "64KiB", "1MiB".
type Size int64

// maxSize bounds a size.
const maxSize = 64 << 20

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(node ast.Node) error {
	text := strictyaml.Text(node)
	number, unit := text, int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = n, bytes
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
	if err != nil || n <= 0 {
		return strictyaml.Refuse(node, "%q is no size: want bytes, or a number of KiB or MiB, such as 1MiB", text)
	}
	if n > maxSize/unit {
		return strictyaml.Refuse(node, "%q is more than %d MiB: it is held in memory", text, maxSize>>20)
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
	text, refused := strictyaml.Text(node), strictyaml.Refuse(node, "%s", noStatus)
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
