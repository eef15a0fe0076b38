package doctor

import "fmt"

// Level says how bad a finding is.
type Level int

// The levels. The zero value is the worst: a check that says nothing has failed.
const (
	Fail Level = iota // do not serve
	Warn              // it works, and will hurt
	Good
)

func (l Level) String() string {
	switch l {
	case Good:
		return "ok"
	case Warn:
		return "warn"
	default:
		return "FAIL"
	}
}

// MarshalText implements encoding.TextMarshaler: "ok", "warn" or "fail".
func (l Level) MarshalText() ([]byte, error) {
	if l == Fail {
		return []byte("fail"), nil
	}
	return []byte(l.String()), nil
}

// Finding is what one check came to.
type Finding struct {
	Level Level `json:"level"`
	// Check names it, in words that stay: "fsync", "clock", "contract stripe".
	Check string `json:"check"`
	// Seen is what was found.
	Seen string `json:"seen"`
	// Do is what to do about it; empty when nothing is.
	Do string `json:"do,omitempty"`
}

// Worst is the level of the worst finding, and Good without any.
func Worst(findings []Finding) Level {
	worst := Good
	for _, f := range findings {
		worst = min(worst, f.Level)
	}
	return worst
}

func good(check, seen string, args ...any) Finding {
	return Finding{Level: Good, Check: check, Seen: fmt.Sprintf(seen, args...)}
}

func warn(check, seen, do string) Finding {
	return Finding{Level: Warn, Check: check, Seen: seen, Do: do}
}

func fail(check, seen, do string) Finding {
	return Finding{Level: Fail, Check: check, Seen: seen, Do: do}
}
