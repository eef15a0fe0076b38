package httpaction_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onceward/onceward/actions/httpaction"
)

func TestPickJSON(t *testing.T) {
	tests := []struct {
		name, body string
		fields     []string
		want       string // empty: an error
	}{
		{"order of the names", `{ "b" : 2, "x": [], "a" : "1" }`, []string{"a", "b"}, `{"a":"1","b":2}`},
		{"digits", `{"n":[9007199254740993,1.10,1E400,-0]}`, []string{"n"}, `{"n":[9007199254740993,1.10,1E400,-0]}`},
		{"nested", `{"o":{"z":1, "a":{"b":null,"c":[true,false]}}}`, []string{"o"}, `{"o":{"z":1,"a":{"b":null,"c":[true,false]}}}`},
		{"NUL", `{"s":"a\u0000b"}`, []string{"s"}, "{\"s\":\"a\uFFFDb\"}"},
		{"lone surrogates", `{"s":"\ud800 \udc00x"}`, []string{"s"}, "{\"s\":\"\uFFFD \uFFFDx\"}"},
		{"surrogate pair", `{"s":"\ud83d\ude00"}`, []string{"s"}, `{"s":"😀"}`},
		{"invalid UTF-8", "{\"s\":\"a\xffb\"}", []string{"s"}, "{\"s\":\"a\uFFFDb\"}"},
		{"strange member names", `{"o":{"a\u0000":1,"\ud800":2}}`, []string{"o"}, "{\"o\":{\"a\uFFFD\":1,\"\uFFFD\":2}}"},
		{"strange text elsewhere", "{\"s\":1,\"x\xff\":\"\xff\\u0000\\ud800\"}", []string{"s"}, `{"s":1}`},
		{"byte order mark", "\xef\xbb\xbf{\"s\":1}", []string{"s"}, `{"s":1}`},
		{"duplicate elsewhere", `{"s":1,"x":1,"x":2}`, []string{"s"}, `{"s":1}`},
		{"no fields", `{"s":1}`, nil, `{}`},
		{"null", `{"s":null}`, []string{"s"}, `{"s":null}`},
		{"duplicate", `{"s":1,"s":2}`, []string{"s"}, ""},
		{"missing", `{"s":1}`, []string{"s", "t"}, ""},
		{"empty", ``, []string{"s"}, ""},
		{"list", `[{"s":1}]`, []string{"s"}, ""},
		{"cut", `{"s":1,"t":`, []string{"s"}, ""},
		{"cut number", `{"s":1`, []string{"s"}, ""},
		{"more behind", `{"s":1}{}`, []string{"s"}, ""},
		{"rubbish behind", `{"s":1}x`, []string{"s"}, ""},
		{"HTML", `<html>`, []string{"s"}, ""},
		{"deep", `{"s":` + strings.Repeat("[", 1e6), []string{"s"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := httpaction.PickJSON([]byte(test.body), test.fields...)
			if (err != nil) != (test.want == "") || string(got) != test.want {
				t.Errorf("got %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestJSONError(t *testing.T) {
	read := httpaction.JSONError("error.code", "message")
	for body, want := range map[string][2]string{
		`{"error":{"code":"a"},"message":"b"}`: {"a", "b"},
		`{"error":{"code":7},"message":{}}`:    {"7", ""},
		`{"error":"a"}`:                        {"", ""},
		`{"error":{"code":null}}`:              {"", ""},
		`null`:                                 {"", ""},
		`<html>`:                               {"", ""},
	} {
		if code, message := read([]byte(body)); code != want[0] || message != want[1] {
			t.Errorf("%s: %q %q, want %q", body, code, message, want)
		}
	}
}

func FuzzPickJSON(f *testing.F) {
	for _, seed := range []string{success, failure, "{\"id\":\"\\u0000\\ud800\xff\",\"amount\":1e999}", `{"id":1,"id":2}`, `[`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := httpaction.PickJSON(body, "id", "amount")
		if err != nil {
			if got != nil {
				t.Errorf("an error and %s", got)
			}
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) || strings.Contains(string(got), `\u0000`) {
			t.Errorf("got %q", got)
		}
		again, err := httpaction.PickJSON(got, "id", "amount")
		if err != nil || string(again) != string(got) {
			t.Errorf("picked again: %q, %v; before %q", again, err, got)
		}
	})
}
