package strictyaml

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
	parsed, err := parseDuration(Text(node))
	if err != nil {
		return Refuse(node, "%s", err)
	}
	*d = Duration(parsed)
	return nil
}

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
