package definition_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/onceward/onceward/actions/definition"
)

// loadOne reads one file, whose faults must all have a place in it.
func loadOne(t *testing.T, text string) error {
	t.Helper()
	_, err := definition.LoadFS(fstest.MapFS{"f.yaml": {Data: []byte(text)}}, ".")
	if err == nil {
		return nil
	}
	var faults *definition.FaultsError
	if !errors.As(err, &faults) || len(faults.Faults) == 0 {
		t.Fatalf("no faults in %v", err)
	}
	for _, f := range faults.Faults {
		if f.Place.File != "f.yaml" || f.Place.Line < 1 || f.Place.Column < 1 || f.Problem == "" {
			t.Errorf("no place: %s", f)
		}
	}
	return err
}

// Files that nobody would write are refused at once, where they are wrong.
func TestHostileFiles(t *testing.T) {
	const head = "kind: provider\n"
	deep := func(n int, text string) string { return head + "x: " + strings.Repeat(text, n) }
	blocks := &strings.Builder{}
	for i := range 100 {
		fmt.Fprintf(blocks, "%s a:\n", strings.Repeat(" ", i))
	}
	for _, test := range []struct{ text, want string }{
		{"", "f.yaml:1:1: is empty"},
		{"# a comment\n", "f.yaml:1:1: is empty"},
		{"---\n", "f.yaml:1:1: is empty"},
		{"hello", "f.yaml:1:1: want one object"},
		{"- a\n", "f.yaml:1:1: want one object"},
		{head + "---\n" + head, "f.yaml:3:1: want exactly one document"},
		{"%YAML 1.2\n---\n" + head, "f.yaml:1:1: directives"},
		{"kind: provider\x00\n", "f.yaml:1:15: has the control character U+0000"},
		{head + "name: \xff\n", "f.yaml:2:7: is no UTF-8"},
		{"\xff\xfek\x00", "f.yaml:1:1: is no UTF-8"},
		{head + "\tname: x\n", "f.yaml:2:1: "},
		{head + "name: a ? b : c\n", "needs quotes"},
		{head + "1: x\n", "f.yaml:2:1: the name 1 is no text"},
		{head + "http: {true: x}\n", "f.yaml:2:8: http: the name true is no text"},
		{head + "~: x\n", "f.yaml:2:1: the name ~ is no text"},
		{head + "? [a, b]\n: x\n", "f.yaml:2:1: names with ?"},
		{head + "<<: {name: x}\n", "f.yaml:2:1: anchors"},
		{head + "name: !!str x\n", "f.yaml:2:7: anchors"},
		{head + "a: &a [x]\nb: [*a, *a]\n", "f.yaml:2:4: anchors"},
		{head + "http: {base_url: a, base_url: b}\n", "f.yaml:2:21: "},
		{head + "http:\n  base_url: a\n  \"base_url\": b\n", "f.yaml:4:3: "},
		{head + "x: .inf\n", "f.yaml:2:4: x: .inf is no number"},
		{head + "x: [.nan]\n", "x[0]: .nan is no number"},
		{head + "x: {y: 1e400}\n", "x.y: 1e400: readers disagree"},
		{head + "x: 12e3\n", "f.yaml:2:4: x: 12e3: readers disagree"},
		{head + "x: 0o17\n", "x: 0o17: readers disagree"},
		{head + "x: 0177\n", "x: 0177: readers disagree"},
		{head + "x: 0x1f\n", "x: 0x1f: readers disagree"},
		{head + "x: 1_000\n", "x: 1_000: readers disagree"},
		{head + "x: +1\n", "x: +1: readers disagree"},
		{head + "x: 123456789012345678901234567890\n", "readers disagree"},
		{head + "x: 0.1234567890123456789\n", "has too many digits"},
		{deep(100_000, "["), "is more than 40"},
		{deep(50_000, "{a: "), "is more than 40"},
		{deep(100, "[") + strings.Repeat("]", 100), "is more than 40"},
		{head + "x:\n" + strings.Repeat("- ", 100_000), "f.yaml:3:"},
		{head + "x:\n" + blocks.String(), "is more than 40"},
		{deep(1, "[") + strings.Repeat(`"",`, 9000), "f.yaml:2:4: this bracket is never closed"},
		{head + "x: ]\n", "f.yaml:2:4: there is no open bracket"},
		{deep(1, "["+strings.Repeat("1,", 100_000)+"1]"), "words and signs"},
		{deep(100_000, "? "), "f.yaml:2:"},
		{deep(100_000, "! "), "f.yaml:2:"},
		{deep(1, "|\n") + strings.Repeat(" \n", 100_000), "f.yaml:2003:2: has more than 2000 empty lines"},
		{deep(1, "|\n") + strings.Repeat("\n", 200_000), "empty lines"},
		{deep(1, "|\n") + strings.Repeat("\r", 200_000), "empty lines"},
		{head + "x: " + strings.Repeat("x", 300_000), "f.yaml:1:1: is longer than"},
	} {
		start := time.Now()
		err := loadOne(t, test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: got %v, want %s", test.text, err, test.want)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%.40q: took %s", test.text, took)
		}
	}
}

// What editors and people do to a good file does not break it.
func TestHarmlessFiles(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"a byte order mark": func(s string) string { return "\ufeff" + s },
		"CRLF":              func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"document marks":    func(s string) string { return "# a comment\n---\n" + s + "...\n" },
		"a dated version":   func(s string) string { return strings.Replace(s, `version: "1"`, "version: 2024-01-01", 1) },
		"a long title":      func(s string) string { return strings.Replace(s, "Stripe API v1", strings.Repeat("x", 100_000), 1) },
	} {
		fsys := files(t, "provider.yaml", "kind", "kind")
		fsys["provider.yaml"] = &fstest.MapFile{Data: []byte(change(string(fsys["provider.yaml"].Data)))}
		if _, err := definition.LoadFS(fsys, "."); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Values that a shape cannot judge have their place and field too.
func TestRefusedValuesHavePlaces(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"  window: 24h", "  window: 99999999999h", "provider.yaml:19:11: keys.window: "},
		{"  window: 24h", "  window: 9000d", "provider.yaml:19:11: keys.window: "},
		{"status: [409]", "status: [200, 504-500]", "provider.yaml:32:19: outcomes[0].status[1]: want an HTTP status"},
		{"  auth:\n", "  max_response: 2000 MiB\n  auth:\n", `provider.yaml:12:17: http.max_response: "2000 MiB" is more than 64 MiB`},
		{"max_length: 255", "max_length: 9223372036854775808", "provider.yaml:18:"},
	} {
		_, err := definition.LoadFS(files(t, "provider.yaml", test.from, test.to), ".")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.to, err, test.want)
		}
	}
}

// FuzzLoad: no bytes make it panic, and every fault has a place.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "kind: provider\n", "kind: action\nx: [1, {a: b}]\n", "? a\n: b\n", "&a *a", "{", "kind: \"\\", "- - -\n", "a: |9\n b", "%", "\ufeff---\n...\n",
		"kind: provider\nname: a\nversion: \"1\"\nhttp: {base_url: 'https://a.example'}\nkeys: {place: header, name: K, window: 1h}\noutcomes: [{status: [5xx], is: ambiguous}]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { _ = loadOne(t, string(data)) })
}
