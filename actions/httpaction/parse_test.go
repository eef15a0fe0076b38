package httpaction_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions/httpaction"
)

func TestParseJSON(t *testing.T) {
	for body, want := range map[string]any{
		`null`:                               nil,
		`{ "a":[1,true,""]}`:                 map[string]any{"a": []any{json.Number("1"), true, ""}},
		`[90071992547409931234,12.50,1e999]`: []any{json.Number("90071992547409931234"), json.Number("12.50"), json.Number("1e999")},
		"\uFEFF\"x\"":                        "x",
		`{"a\u0000":"\u0000\ud800\u00e9"}`:   map[string]any{"a\uFFFD": "\uFFFD\uFFFDé"},
		"\"\xff\"":                           "\uFFFD",
	} {
		if got, err := httpaction.ParseJSON([]byte(body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v (%v), want %#v", body, got, err, want)
		}
	}
	for _, body := range []string{
		``, `{`, `{"a":1`, `{"a":1}]`, `{"a":1}}`, `{} {}`, `[1,]`, `{"a":1,"a":1}`, `nul`, `01`, "<html>",
		strings.Repeat("[", 300) + strings.Repeat("]", 300),
	} {
		if got, err := httpaction.ParseJSON([]byte(body)); err == nil {
			t.Errorf("%.40q: got %#v", body, got)
		}
	}
}

func TestJSONAnswer(t *testing.T) {
	cut := answered(200, jsonType, `[]`)
	cut.Complete = false
	for _, test := range []struct {
		x    httpaction.Exchange
		want bool
	}{
		{answered(200, jsonType, `[]`), true},
		{answered(200, "application/problem+json", `{}`), true},
		{answered(200, htmlType, `[]`), false},
		{answered(200, jsonType, `[`), false},
		{cut, false},
	} {
		if _, ok := httpaction.JSONAnswer(test.x); ok != test.want {
			t.Errorf("%s: %t", test.x.Evidence, ok)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,"\ud800",null]}`))
	f.Add([]byte("\uFEFF[1e5]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		value, err := httpaction.ParseJSON(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(value)
		if err != nil || strings.Contains(string(text), `\u0000`) {
			t.Errorf("%q became %s (%v)", body, text, err)
		}
	})
}
