package auditchain

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

// example is the event of docs/audit.md.
var example = Event{
	Tenant: "acme", OperationID: "01890000-0000-7000-8000-000000000001", Sequence: 1, At: "2026-11-01T02:03:04.000005Z",
	Event: "claim", From: "", To: "running", Attempt: 1, Epoch: 0, ArgsHash: strings.Repeat("0a", 32), Actor: "größe", Detail: "",
	Key: ptr("k:1"), Context: ptr(`{"action_type":"a.b","run":{}}`),
}

// The form, byte by byte, as docs/audit.md has it: other programs verify by it.
func TestFormOfTheChain(t *testing.T) {
	t.Parallel()
	const form = `1:0:4:acme36:01890000-0000-7000-8000-0000000000011:1793498584000005:5:claim0:7:running1:0:` +
		`64:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a7:größe0::3:k:130:{"action_type":"a.b","run":{}}:`
	got, err := example.Link("")
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(form))); err != nil || got != want {
		t.Errorf("the chain is %s, %v; want %s", got, err, want)
	}
	const golden = "60069ddafc9697c1cdff8bd08ec14ec060484514d74cd2a048a00ac1855e8016"
	if got != golden {
		t.Errorf("the chain is %s, want %s", got, golden)
	}
}

// Whatever is changed, added, or moved from one column to the next one, the chain
// is another.
func TestEveryColumnIsInTheChain(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	add := func(what, previous string, change func(*Event)) {
		t.Helper()
		e := example
		change(&e)
		link, err := e.Link(previous)
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[link]; twice {
			t.Errorf("%s has the chain of %s", what, other)
		}
		seen[link] = what
	}
	add("the event", "", func(*Event) {})
	add("after another", strings.Repeat("ab", 32), func(*Event) {})
	for what, change := range map[string]func(*Event){
		"tenant": func(e *Event) { e.Tenant = "acne" }, "operation": func(e *Event) { e.OperationID = strings.Replace(e.OperationID, "1", "2", 1) },
		"sequence": func(e *Event) { e.Sequence = 2 }, "at": func(e *Event) { e.At = "2026-11-01T02:03:04.000006Z" },
		"event": func(e *Event) { e.Event = "replay" }, "from": func(e *Event) { e.From = "x" }, "to": func(e *Event) { e.To = "x" },
		"from, not to": func(e *Event) { e.From, e.To = e.To, e.From },
		"attempt":      func(e *Event) { e.Attempt = 2 }, "epoch": func(e *Event) { e.Epoch = 1 },
		"attempt and epoch": func(e *Event) { e.Attempt, e.Epoch = 0, 1 },
		"hash":              func(e *Event) { e.ArgsHash = "" }, "actor": func(e *Event) { e.Actor = "" }, "detail": func(e *Event) { e.Detail = "x" },
		"actor's end in the detail": func(e *Event) { e.Actor, e.Detail = "grö", "ße" },
		"an empty outcome":          func(e *Event) { e.Outcome = ptr("") }, "an outcome": func(e *Event) { e.Outcome = ptr("k:1") },
		"no key": func(e *Event) { e.Key = nil }, "key as outcome": func(e *Event) { e.Outcome, e.Key = e.Key, nil },
		"no context": func(e *Event) { e.Context = nil }, "context as reference": func(e *Event) { e.Context, e.Reference = nil, e.Context },
		"an empty reference": func(e *Event) { e.Reference = ptr("") },
	} {
		add(what, "", change)
	}
	broken := example
	broken.At = "yesterday"
	if _, err := broken.Link(""); err == nil {
		t.Error("a time that is none has a chain")
	}
}

// record is a whole record of two operations.
func record(t *testing.T) []Event {
	t.Helper()
	var all []Event
	for _, id := range []string{"a", "b"} {
		previous := ""
		for i, to := range []string{"running", "unknown", "succeeded"} {
			e := example
			e.OperationID, e.Sequence, e.To = id, int64(2*i+1), to // leases count, too
			if i > 0 {
				e.From, e.Key, e.Context = all[len(all)-1].To, nil, nil
			} else {
				e.Head = ptr("")
			}
			var err error
			if e.Chain, err = e.Link(previous); err != nil {
				t.Fatal(err)
			}
			previous = e.Chain
			all = append(all, e)
		}
		all[len(all)-3].Head = ptr(previous)
	}
	return all
}

func problems(events []Event) (all []string) {
	v := &Verifier{Found: func(p Problem) { all = append(all, fmt.Sprintf("%s/%d %s", p.OperationID, p.Sequence, p.What)) }}
	for _, e := range events {
		v.Add(e)
	}
	v.End()
	return all
}

func TestVerifier(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(all []Event) []Event
		want   []string // beginnings
	}{
		"whole":              {func(all []Event) []Event { return all }, nil},
		"none":               {func([]Event) []Event { return nil }, nil},
		"first removed":      {func(all []Event) []Event { return all[1:] }, []string{"a/3 the events before it"}},
		"middle removed":     {func(all []Event) []Event { return slices.Delete(all, 1, 2) }, []string{"a/5 an event between"}},
		"last removed":       {func(all []Event) []Event { return slices.Delete(all, 2, 3) }, []string{"a/3 the events after it"}},
		"last of all":        {func(all []Event) []Event { return all[:5] }, []string{"b/3 the events after it"}},
		"one twice":          {func(all []Event) []Event { return slices.Insert(all, 1, all[0]) }, []string{"a/1 it comes after event 1"}},
		"changed":            {func(all []Event) []Event { all[4].Actor = "x"; return all }, []string{"b/3 it does not follow from event 1"}},
		"other order":        {func(all []Event) []Event { return slices.Concat(all[3:], all[:3]) }, []string{"a/1 the record is not in the order"}},
		"gone after its end": {func(all []Event) []Event { all[3].Head = ptr(""); return all }, nil},
		"gone before its end": {func(all []Event) []Event { all[3].Head = ptr(""); return all[:5] },
			[]string{"b/3 the events after it were removed, or the operation was: a unknown one"}},
		"refused request": {func([]Event) []Event {
			e := example
			e.Event, e.To, e.Head = "deny", "", ptr("")
			e.Chain, _ = e.Link("")
			return []Event{e}
		}, nil},
	} {
		got := problems(tt.change(record(t)))
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], tt.want[i]) {
				t.Errorf("%s: %q, want %q", name, got[i], tt.want[i])
			}
		}
	}
}

// In a file the last event of each operation is marked.
func TestVerifierOfFiles(t *testing.T) {
	t.Parallel()
	all := record(t)
	for i := range all {
		all[i].Head, all[i].Last = nil, ptr(i == 2 || i == 5)
	}
	if got := problems(all); len(got) != 0 {
		t.Errorf("a whole file: %q", got)
	}
	if got := problems(slices.Delete(slices.Clone(all), 2, 3)); len(got) != 1 || !strings.HasPrefix(got[0], "a/3 the events after it were removed") {
		t.Errorf("the last event of the first operation: %q", got)
	}
	if got := problems(all[:4]); len(got) != 1 || !strings.HasPrefix(got[0], "b/1 the events after it were removed") {
		t.Errorf("the last events of the file: %q", got)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Parse(line)
	if err != nil || *e.Key != *example.Key || e.Outcome != nil || e.At != example.At {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{
		`{}x`, `{}{}`, `[]`, `null`, ``, `{"sequence":"1"}`, `{"tenant_id":"a","more":1}`,
		`{"detail":"a","detail":"b"}`, `{"detail":"a","Detail":"b"}`, `{"DETAIL":"a"}`,
	} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
