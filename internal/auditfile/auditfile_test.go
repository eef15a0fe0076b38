package auditfile

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const day = "2026-10-01"

var exportedAt = time.Date(2026, 11, 1, 2, 3, 4, 0, time.UTC)

// write makes an export with some lines.
func write(t *testing.T, dir string, lines ...string) Manifest {
	t.Helper()
	m, err := Write(dir, Manifest{Day: day, Program: "test", ExportedAt: exportedAt}, func(each func([]byte) error) error {
		for _, line := range lines {
			if err := each([]byte(line)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return strings.Join(all, " ")
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	for _, lines := range [][]string{{`{"a":1}`, `{"b":"ü"}`}, nil, {strings.Repeat("x", 1<<20)}} {
		m := write(t, dir, lines...)
		packed, err := os.ReadFile(filepath.Join(dir, m.File))
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, line := range lines {
			want += line + "\n"
		}
		if string(text) != want || m.Rows != int64(len(lines)) {
			t.Errorf("%d lines in a file of %d bytes, want %d in %d", m.Rows, len(text), len(lines), len(want))
		}
		verified, sum, err := Verify(dir, day)
		if err != nil || verified != m || sum != sha256.Sum256([]byte(want)) || verified.Program != "test" || !verified.ExportedAt.Equal(exportedAt) {
			t.Errorf("verified %+v, %x, %v; want %+v", verified, sum, err, m)
		}
		if got := names(t, dir); got != "audit_events_2026-10-01.jsonl.gz audit_events_2026-10-01.manifest.json" {
			t.Errorf("the folder has %s", got)
		}
	}
	for _, name := range strings.Fields(names(t, dir)) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want it for its owner only", name, info.Mode(), err)
		}
	}
}

// What was there stays when a new one is not complete.
func TestFailureLeavesTheOldOne(t *testing.T) {
	dir := t.TempDir()
	m := write(t, dir, `{"a":1}`)
	broken := errors.New("connection lost")
	_, err := Write(dir, Manifest{Day: day}, func(each func([]byte) error) error {
		return errors.Join(each([]byte(`{"b":2}`)), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if got, _, err := Verify(dir, day); err != nil || got != m {
		t.Errorf("%+v, %v; want the old one", got, err)
	}
	if got := names(t, dir); strings.Contains(got, ".part") {
		t.Errorf("the folder has %s", got)
	}
}

func TestMissing(t *testing.T) {
	file, manifest := Name(day)
	for _, name := range []string{file, manifest} {
		dir := t.TempDir()
		write(t, dir, `{"a":1}`)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Verify(dir, day); !IsMissing(err) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestChangesAreFound(t *testing.T) {
	pack := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	file, manifest := Name(day)
	for what, change := range map[string]struct {
		name string
		to   func(old []byte) []byte
	}{
		"cut short":           {file, func(old []byte) []byte { return old[:len(old)-1] }},
		"longer":              {file, func(old []byte) []byte { return append(old, 0) }},
		"a second part":       {file, func(old []byte) []byte { return append(old, pack("{}\n")...) }},
		"one bit":             {file, func(old []byte) []byte { old[len(old)/2] ^= 1; return old }},
		"other lines":         {file, func([]byte) []byte { return pack(`{"a":2}` + "\n") }},
		"one line more":       {file, func([]byte) []byte { return pack(`{"a":1}` + "\n{}\n") }},
		"empty":               {file, func([]byte) []byte { return nil }},
		"the manifest's rows": {manifest, func(old []byte) []byte { return bytes.Replace(old, []byte(`"rows": 1`), []byte(`"rows": 2`), 1) }},
		"the manifest's day":  {manifest, func(old []byte) []byte { return bytes.Replace(old, []byte(day), []byte("2026-10-02"), 1) }},
		"the manifest's file": {manifest, func(old []byte) []byte { return bytes.Replace(old, []byte(`.jsonl`), []byte(`.json`), 1) }},
		"the manifest's checksum": {manifest, func(old []byte) []byte {
			return bytes.Replace(old, []byte(`"lines_sha256": "`), []byte(`"lines_sha256": "0`), 1)
		}},
		"no manifest at all": {manifest, func([]byte) []byte { return []byte("{") }},
	} {
		dir := t.TempDir()
		write(t, dir, `{"a":1}`)
		path := filepath.Join(dir, change.name)
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change.to(old), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Verify(dir, day); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want ErrChanged", what, err)
		}
	}
}
