package auditfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := []string{`{"a":1}`, "", strings.Repeat("x", 200_000)}
	write(t, dir, want...)
	var got []string
	if err := Lines(dir, day, func(line []byte) error { got = append(got, string(line)); return nil }); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %d lines, %v", len(got), err)
	}
	stop := errors.New("stop")
	if err := Lines(dir, day, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of a line: %v", err)
	}
	if err := Lines(dir, "2026-10-02", nil); !IsMissing(err) {
		t.Errorf("a day that is not there: %v", err)
	}
	name, _ := Name(day)
	whole, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for what, damaged := range map[string][]byte{"cut": whole[:len(whole)-20], "text": []byte("not gzip"), "empty": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Lines(dir, day, func([]byte) error { return nil }); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if days, err := Days(dir); err != nil || len(days) != 0 {
		t.Errorf("an empty folder has %v, %v", days, err)
	}
	write(t, dir)
	for _, name := range []string{"audit_events_2026-09-30.jsonl.gz", "audit_events_default.manifest.json", "notes.txt", "audit_events_x.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if days, err := Days(dir); err != nil || !slices.Equal(days, []string{"2026-09-30", day, "default"}) {
		t.Errorf("days %v, %v", days, err)
	}
	if _, err := Days(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there has days")
	}
}
