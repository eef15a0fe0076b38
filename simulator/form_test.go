package simulator

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/onceward/onceward/actions/definition"
)

func TestNestedForms(t *testing.T) {
	for form, want := range map[string]string{
		"a=1&b=x%20y":                `{"a":"1","b":"x y"}`,
		"a[b]=1&a[c][d]=2":           `{"a":{"b":"1","c":{"d":"2"}}}`,
		"a[]=1&a[]=2":                `{"a":["1","2"]}`,
		"a=1&a=2":                    `{"a":["1","2"]}`,
		"a[0]=x&a[1]=y":              `{"a":["x","y"]}`,
		"a[1]=x&a[2]=y":              `{"a":{"1":"x","2":"y"}}`,
		"a[0][b]=x&a[1][b]=y":        `{"a":[{"b":"x"},{"b":"y"}]}`,
		"a[][b]=1&a[][c]=2&a[][b]=3": `{"a":[{"b":"1","c":"2"},{"b":"3"}]}`,
		"0=x":                        `{"0":"x"}`,
		"a[b=1&[c]=2&a]=3&b[c]d=4":   `{"[c]":"2","a[b":"1","a]":"3","b[c]d":"4"}`,
		"a=1&a[b]=2":                 `{"a":{"b":"2"}}`,
		"a[b]=":                      `{"a":{"b":""}}`,
	} {
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(nested(values))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", form, got, err, want)
		}
	}
}

func TestKeyInText(t *testing.T) {
	for _, tt := range []struct{ template, rendered, want string }{
		{"${key}", "k1", "k1"},
		{"k-${key}.", "k-abc.", "abc"},
		{"f(a: ${args.a}, key: \"${ key }\") {\n  id\n}\n", `f(a: "x", key: "k_1-2") { id }`, "k_1-2"},
		{"k-${key}", "other", ""},
	} {
		if got := keyIn(tt.template)(tt.rendered); got != tt.want {
			t.Errorf("%s in %s: %q, want %q", tt.template, tt.rendered, got, tt.want)
		}
	}
	for _, without := range []string{"", "key", "$${key}", `${"x" + key}`, "${key"} {
		if keyIn(without) != nil {
			t.Errorf("%s: found a key", without)
		}
	}
}

func TestReplayMark(t *testing.T) {
	for expression, want := range map[string]string{
		`header[?"idempotent-replayed"].orValue("") == "true"`: "true",
		`header["idempotent-replayed"] == "hit"`:               "hit",
		`status == 200`:                                        "",
		``:                                                     "",
	} {
		if got := replayMark(expression).Get("Idempotent-Replayed"); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

func TestSpoiledMember(t *testing.T) {
	for _, tt := range []struct {
		reference string
		fields    map[string]string
		want      string
	}{
		{"body.id", map[string]string{"a": "body.id", "b": " body.currency ", "c": "body.amount"}, "amount"},
		{"body.id", map[string]string{"a": "body.amount", "b": "body.status"}, ""}, // the usual one
		{`body.channel + ":" + body.?ts.orValue("")`, map[string]string{"a": "body.channel", "b": "body.ts", "c": "body.text"}, "text"},
		{"body.id", map[string]string{"a": "body.id", "b": "body.a.b", "c": "string(body.n)"}, ""},
	} {
		if got := spoiled(&definition.Receipt{Reference: tt.reference, Fields: tt.fields}); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	if got := spoiled(nil); got != "" {
		t.Errorf("without a receipt: %q", got)
	}
}
