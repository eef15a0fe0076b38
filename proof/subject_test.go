package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/fakeprovider"
)

// inert is an adapter that is only looked at.
type inert struct{ spec actions.Spec }

func (i inert) Spec() actions.Spec                                      { return i.spec }
func (inert) Validate(actions.Arguments) error                          { return nil }
func (inert) Execute(context.Context, actions.Call) actions.Outcome     { return actions.Outcome{} }
func (inert) Lookup(context.Context, actions.Query) (f actions.Finding) { return f }

// rendered is an inert adapter with a Render.
type rendered struct {
	inert
	render func(actions.Call) string
}

func (r rendered) Render(call actions.Call) ([]byte, error) {
	text := r.render(call)
	if text == "" {
		return nil, errors.New("no request")
	}
	return []byte(text), nil
}

// void is a target that nothing is asked of.
type void struct{ Target }

func (void) Close() error { return nil }

func opened(a actions.Adapter) func(context.Context, Env) (actions.Adapter, Target, error) {
	return func(context.Context, Env) (actions.Adapter, Target, error) { return a, void{}, nil }
}

func specOf(schema string) actions.Spec {
	return actions.Spec{Type: "a.b", Version: "1", Schema: json.RawMessage(schema), Contract: actions.Contract{Provider: "p", Version: "1"}}
}

func TestLookRefuses(t *testing.T) {
	t.Parallel()
	closed := `{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"}}}`
	for name, tt := range map[string]struct {
		subject Subject
		want    string
	}{
		"a contradiction":      {Subject{Open: opened(inert{actions.Spec{Type: "A"}}), Arguments: json.RawMessage(`{}`)}, `type "A"`},
		"no JSON":              {Subject{Open: opened(inert{specOf(closed)}), Arguments: json.RawMessage(`{`)}, "a.b: example: "},
		"not valid":            {Subject{Open: opened(inert{specOf(closed)}), Arguments: json.RawMessage(`{"n":"x"}`)}, "a.b: example: "},
		"others are not valid": {Subject{Open: opened(inert{specOf(closed)}), Arguments: json.RawMessage(`{"n":1}`), OtherArguments: json.RawMessage(`{"m":1}`)}, "a.b: other arguments: "},
		"a bad answer":         {Subject{Open: opened(inert{specOf(closed)}), Arguments: json.RawMessage(`{"n":1}`), Answers: []Answer{{Name: "No Funds"}}}, `a.b: answers: "No Funds"`},
		"an answer twice":      {Subject{Open: opened(inert{specOf(closed)}), Arguments: json.RawMessage(`{"n":1}`), Answers: []Answer{{Name: "a"}, {Name: "a"}}}, `a.b: answers: "a"`},
		"does not open": {Subject{Open: func(context.Context, Env) (actions.Adapter, Target, error) {
			return nil, nil, errors.New("no token")
		}}, "open: no token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := look(t.Context(), tt.subject, ""); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestOtherArguments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		schema, example string
		advisory        []string
		given           string
		want            string // empty: there are none
	}{
		"a number":         {`{"type":"object"}`, `{"n":4}`, nil, "", `{"n":5}`},
		"a bounded number": {`{"type":"object","properties":{"n":{"maximum":4}}}`, `{"n":4}`, nil, "", `{"n":3}`},
		"a big number":     {`{"type":"object"}`, `{"n":123456789012345678901234567890}`, nil, "", `{"n":123456789012345678901234567891}`},
		"a text":           {`{"type":"object"}`, `{"s":"ch_9"}`, nil, "", `{"s":"ch_8"}`},
		"an address":       {`{"type":"object","properties":{"s":{"pattern":"^[a-z]+@x$"}}}`, `{"s":"li@x"}`, nil, "", `{"s":"mi@x"}`},
		"a choice":         {`{"type":"object","properties":{"s":{"enum":["usd","eur"]}}}`, `{"s":"usd"}`, nil, "", `{"s":"eur"}`},
		"a switch":         {`{"type":"object"}`, `{"b":true}`, nil, "", `{"b":false}`},
		"not the note":     {`{"type":"object"}`, `{"a":"x","note":"y"}`, []string{"a"}, "", `{"a":"x","note":"z"}`},
		"a constant":       {`{"type":"object","properties":{"s":{"const":"x"}}}`, `{"s":"x"}`, nil, "", ``},
		"a constant, said": {`{"type":"object","properties":{"s":{"enum":["x","y z"]}}}`, `{"s":"x"}`, nil, `{"s":"y z"}`, `{"s":"y z"}`},
		"nothing":          {`{"type":"object"}`, `{}`, nil, "", ``},
		"a list":           {`{"type":"object"}`, `{"l":[1]}`, nil, "", ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := specOf(tt.schema)
			spec.AdvisoryArgs = tt.advisory
			subject := Subject{Open: opened(inert{spec}), Arguments: json.RawMessage(tt.example)}
			if tt.given != "" {
				subject.OtherArguments = json.RawMessage(tt.given)
			}
			s, err := look(t.Context(), subject, "")
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if s.noOther == "" {
					t.Errorf("found %s", s.other.JSON())
				}
				return
			}
			if s.noOther != "" || string(s.other.JSON()) != tt.want {
				t.Errorf("got %s (%s), want %s", s.other.JSON(), s.noOther, tt.want)
			}
		})
	}
}

func TestRenderIsLookedAt(t *testing.T) {
	t.Parallel()
	keyed := specOf(`{"type":"object"}`)
	keyed.Contract.Keys = actions.KeyRules{Honoured: true, Window: time.Hour}
	var n atomic.Int32
	for name, tt := range map[string]struct {
		adapter actions.Adapter
		want    string
	}{
		"the same":         {rendered{inert{keyed}, func(c actions.Call) string { return c.ProviderKey }}, ""},
		"a counter":        {rendered{inert{keyed}, func(c actions.Call) string { return c.ProviderKey + fmt.Sprint(n.Add(1)) }}, "gives other bytes"},
		"a secret":         {rendered{inert{keyed}, func(c actions.Call) string { return c.ProviderKey + " hunter2" }}, "a credential"},
		"no key":           {rendered{inert{keyed}, func(actions.Call) string { return "POST /" }}, "the key is not in the request"},
		"no key is wanted": {rendered{inert{specOf(`{"type":"object"}`)}, func(actions.Call) string { return "POST /" }}, ""},
		"an error":         {rendered{inert{keyed}, func(actions.Call) string { return "" }}, "cannot be rendered: no request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := look(t.Context(), Subject{Open: opened(tt.adapter), Arguments: json.RawMessage(`{}`), Secrets: []string{"hunter2"}}, "")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(s.renderer, tt.want) || (s.renderer == "") != (tt.want == "") {
				t.Errorf("got %q, want %q", s.renderer, tt.want)
			}
		})
	}
}

// TestRouterAbilities: the runner sees the abilities that the adapter has.
func TestRouterAbilities(t *testing.T) {
	t.Parallel()
	for _, renders := range []bool{false, true} {
		for _, looks := range []bool{false, true} {
			a := newRouter(&sample{spec: specOf(`{}`), renders: renders, looks: looks}, &stages{})
			_, canRender := a.(actions.Renderer)
			_, canLook := a.(actions.Looker)
			if canRender != renders || canLook != looks {
				t.Errorf("renders %t, looks %t; want %t, %t", canRender, canLook, renders, looks)
			}
		}
	}
}

// TestPathNames: names are used as tenants and on a command line.
func TestPathNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range Paths() {
		if seen[p.Name] || strings.Trim(p.Name, "abcdefghijklmnopqrstuvwxyz-0123456789") != "" || len(p.Name) > 30 || p.Title == "" {
			t.Errorf("path %+v is there twice, or has no good name", p)
		}
		seen[p.Name] = true
	}
	for _, k := range fakeprovider.Kinds() {
		if k == fakeprovider.None || k == fakeprovider.RefuseConnection || k == fakeprovider.Delay || k == fakeprovider.DelayAfterApplying ||
			k == fakeprovider.OwnAnswer {
			continue // the plain path, the paused server, moments in place of times, a subject's own answers
		}
		if !usesKind(t, k) {
			t.Errorf("no path has the fault %s", k)
		}
	}
}

// usesKind reports whether a path scripts a kind of fault for the most able of
// subjects.
func usesKind(t *testing.T, k fakeprovider.Kind) bool {
	t.Helper()
	spec := specOf(`{}`).WithDefaults()
	spec.Contract.Keys = actions.KeyRules{Honoured: true, Window: time.Hour}
	for _, p := range paths() {
		if p.prepare == nil {
			continue
		}
		recorder := &recording{}
		if err := p.prepare(newStage(&sample{spec: spec, looks: true}, p, "t", inert{spec}, recorder)); err != nil {
			t.Errorf("path %s: %v", p.name, err)
		}
		for _, f := range recorder.faults {
			if f.Kind == k {
				return true
			}
		}
	}
	return false
}

// recording is a target that takes every fault.
type recording struct {
	void
	faults []fakeprovider.Fault
}

func (r *recording) Next(f ...fakeprovider.Fault) error {
	r.faults = append(r.faults, f...)
	return nil
}
func (r *recording) NextLookup(f ...fakeprovider.Fault) error { return r.Next(f...) }
func (*recording) Pause() error                               { return nil }
