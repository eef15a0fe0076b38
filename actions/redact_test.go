package actions

import (
	"encoding/json"
	"testing"
)

func TestRedact(t *testing.T) {
	for name, test := range map[string]struct {
		receipt string
		names   []string
		want    string
	}{
		"nothing is sensitive":   {`{"a": 1}`, nil, `{"a": 1}`},
		"not there":              {`{ "a": 1 }`, []string{"b"}, `{ "a": 1 }`},
		"a text":                 {`{"id":"re_1","token":"s3cr\u0065t","n":2}`, []string{"token"}, `{"id":"re_1","token":"[redacted]","n":2}`},
		"spaces and order stay":  {"{ \"b\" :\t1.50 ,\n\"a\": {\"x\" : [1, 2]} }", []string{"a"}, "{ \"b\" :\t1.50 ,\n\"a\": \"[redacted]\" }"},
		"several":                {`{"a":1,"b":null,"c":[{}]}`, []string{"c", "a"}, `{"a":"[redacted]","b":null,"c":"[redacted]"}`},
		"a name that is escaped": {`{"t\u006fken":1}`, []string{"token"}, `{"t\u006fken":"[redacted]"}`},
		"a name twice":           {`{"token":1,"token":2}`, []string{"token"}, `{"token":"[redacted]","token":"[redacted]"}`},
		"a lone surrogate":       {`{"x":"\ud800","token":1}`, []string{"token"}, `{"x":"\ud800","token":"[redacted]"}`},
		"not within others":      {`{"a":{"token":1}}`, []string{"token"}, `{"a":{"token":1}}`},
		"no object":              {`["token"]`, []string{"token"}, `{"receipt_unreadable":true}`},
		"cut short":              {`{"token":"abc`, []string{"token"}, `{"receipt_unreadable":true}`},
		"cut in a later member":  {`{"token":"abc","x":`, []string{"token"}, `{"receipt_unreadable":true}`},
		"none":                   {``, []string{"token"}, ``},
	} {
		if got := Redact(json.RawMessage(test.receipt), test.names); string(got) != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
