package edge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind is what goes wrong on an edge. The zero value is none and is refused.
type Kind string

// The kinds.
const (
	// Latency delays all bytes by Delay, give or take Jitter.
	Latency Kind = "latency"
	// Cut closes all connections and refuses new ones: the peer is gone.
	Cut Kind = "cut"
	// HalfOpen lets bytes vanish while connections stay open, as behind a firewall
	// that lost its state. New connections are accepted, and as silent. They are
	// closed when it is healed.
	HalfOpen Kind = "half_open"
	// SlowClose holds a close back by Delay: a peer that went away is noticed late.
	SlowClose Kind = "slow_close"
	// Bandwidth lets Rate bytes a second through.
	Bandwidth Kind = "bandwidth"
	// Reset ends a connection at the first bytes that it carries from now on, and
	// drops these. A connection that began under the fault ends with RST, one that
	// is older with FIN.
	Reset Kind = "reset"
	// Truncate ends a connection after Bytes more bytes: an answer breaks off.
	Truncate Kind = "truncate"
	// Slice cuts what is sent into pieces of about Bytes bytes, some microseconds
	// apart: who takes a read for a message is found out.
	Slice Kind = "slice"
)

// Kinds lists all kinds. The list is the caller's to change.
func Kinds() []Kind {
	return []Kind{Latency, Cut, HalfOpen, SlowClose, Bandwidth, Reset, Truncate, Slice}
}

// Side says which way bytes flow when a fault meets them.
type Side string

// The sides. Cut has none: a listener that is closed is closed for both.
const (
	Both     Side = ""
	ToServer Side = "upstream"   // what the client sends: requests
	ToClient Side = "downstream" // what the server sends: answers
)

// Fault is one thing that goes wrong. A parameter that is zero has the kind's
// default; one that the kind does not name is ignored.
type Fault struct {
	Kind Kind
	Side Side

	Delay  time.Duration // Latency: default 100 ms; SlowClose: default 1 s; at least 1 ms
	Jitter time.Duration // Latency: default none; less than Delay
	Rate   int           // Bandwidth: bytes a second, default and least 1000
	Bytes  int           // Truncate: default 64; Slice: default 16
}

// String tells a fault in a line of a log.
func (f Fault) String() string {
	side := cmp.Or(f.Side, "both ways")
	if f.Kind == Cut {
		return string(f.Kind)
	}
	return fmt.Sprintf("%s (%s)", f.Kind, side)
}

// toxic is how Toxiproxy reads one of its faults.
type toxic struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Stream     Side             `json:"stream"`
	Attributes map[string]int64 `json:"attributes"`
}

func (t toxic) json() []byte {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and integers
	}
	return text
}

// sides are the streams that a fault is on.
func (f Fault) sides() []Side {
	if f.Side == Both {
		return []Side{ToServer, ToClient}
	}
	return []Side{f.Side}
}

// toxics are what a fault is to Toxiproxy, for every kind but Cut.
func (f Fault) toxics(id int) ([]toxic, error) {
	if f.Side != Both && f.Side != ToServer && f.Side != ToClient {
		return nil, fmt.Errorf("edge: %q is not a side", f.Side)
	}
	if f.Delay < 0 || f.Jitter < 0 || f.Rate < 0 || f.Bytes < 0 {
		return nil, errors.New("edge: a parameter of the fault is negative")
	}
	t := toxic{}
	switch f.Kind {
	case Latency:
		delay := cmp.Or(f.Delay, 100*time.Millisecond)
		if f.Jitter >= delay {
			return nil, fmt.Errorf("edge: jitter %s is not less than the delay %s", f.Jitter, delay)
		}
		t.Type, t.Attributes = "latency", map[string]int64{"latency": milliseconds(delay), "jitter": f.Jitter.Milliseconds()}
	case HalfOpen:
		// "Timeout" with 0 drops what it gets, and never closes.
		t.Type, t.Attributes = "timeout", map[string]int64{"timeout": 0}
	case SlowClose:
		t.Type, t.Attributes = "slow_close", map[string]int64{"delay": milliseconds(cmp.Or(f.Delay, time.Second))}
	case Bandwidth:
		// Toxiproxy counts in thousands of bytes; 0 is no bound there.
		t.Type, t.Attributes = "bandwidth", map[string]int64{"rate": int64(max(f.Rate/1000, 1))}
	case Reset:
		t.Type, t.Attributes = "reset_peer", map[string]int64{"timeout": 0}
	case Truncate:
		t.Type, t.Attributes = truncateType, map[string]int64{"bytes": int64(cmp.Or(f.Bytes, 64))}
	case Slice:
		t.Type, t.Attributes = "slicer", map[string]int64{"average_size": int64(cmp.Or(f.Bytes, 16)), "size_variation": 1, "delay": 10}
	case Cut: // is the listener's, not Toxiproxy's
		return nil, nil
	default:
		return nil, fmt.Errorf("edge: there is no fault of kind %q; there are %v", f.Kind, Kinds())
	}
	var all []toxic
	for _, side := range f.sides() {
		t.Stream = side
		t.Name = fmt.Sprintf("%d_%s_%s", id, f.Kind, side)
		all = append(all, t)
	}
	return all, nil
}

// milliseconds is never 0, which would be no fault at all.
func milliseconds(d time.Duration) int64 { return max(d.Milliseconds(), 1) }
