package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// answer is a compiled answer of a contract.
type answer struct {
	status int
	header map[string]*expr.Template
	json   *expr.Tree // nil: none
	text   *expr.Template
}

// answer compiles one; nil where there is none.
func (s *simulation) answer(at definition.Place, field string, a *definition.Answer) *answer {
	if a == nil {
		return nil
	}
	out := &answer{status: a.Status, header: map[string]*expr.Template{}}
	if a.Status < 200 || a.Status > 599 {
		s.bad(at, field+".status", "want an HTTP status from 200 to 599")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		out.header[http.CanonicalHeaderKey(name)] = s.template(at, field+".header."+name, a.Header[name])
	}
	if a.JSON != nil {
		out.json = s.tree(at, field+".json", a.JSON)
	}
	if a.Text != nil {
		out.text = s.template(at, field+".text", *a.Text)
	}
	if out.json != nil && out.text != nil {
		s.bad(at, field, "an answer has json or text, not both")
	}
	return out
}

func (s *simulation) template(at definition.Place, field, text string) *expr.Template {
	t, err := s.play.Template(text)
	if err != nil {
		s.bad(at, field, "%v", err)
	}
	return t
}

// render fills an answer in. It also returns the value of its JSON.
func (a *answer) render(vars expr.Vars) (fakeprovider.Answer, any, error) {
	out := fakeprovider.Answer{Status: a.status, Header: http.Header{}}
	var value any
	switch {
	case a.json != nil:
		var err error
		if value, err = a.json.Value(vars); err != nil {
			return out, nil, err
		}
		if value == expr.Omitted {
			value = nil
		}
		if out.Body, err = encode(value); err != nil {
			return out, nil, err
		}
	case a.text != nil:
		text, err := a.text.Text(vars, nil)
		if err != nil {
			return out, nil, err
		}
		out.Body = []byte(text)
		out.Header.Set("Content-Type", "text/plain; charset=utf-8")
	default:
		out.Header["Content-Type"] = nil // an answer without a body declares none
	}
	for name, t := range a.header {
		text, err := t.Text(vars, nil)
		if err != nil {
			return out, nil, fmt.Errorf("header %s: %w", name, err)
		}
		out.Header.Set(name, text)
	}
	return out, value, nil
}

func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// failure gives an error the shape that the contract says errors have.
func (s *simulation) failure(f fakeprovider.Failure) fakeprovider.Answer {
	var body []byte
	if s.envelope != nil {
		vars := s.vars(map[string]any{})
		vars["code"], vars["message"], vars["status"] = f.Code, f.Message, f.Status
		if value, err := s.envelope.Value(vars); err == nil {
			body, _ = encode(value) // what cannot be encoded is played as the shape below
		}
	}
	if body == nil {
		body, _ = encode(map[string]any{"error": map[string]any{"code": f.Code, "message": f.Message}}) // texts alone
	}
	return fakeprovider.Answer{Status: f.Status, Body: body}
}

// broken is what the simulator answers when a template of the contract fails.
func (s *simulation) broken(what string, err error) fakeprovider.Answer {
	return s.failure(fakeprovider.Failure{
		Status: http.StatusInternalServerError, Code: "simulator_error", Message: "The contract's " + what + " cannot be played: " + err.Error() + ".",
	})
}
