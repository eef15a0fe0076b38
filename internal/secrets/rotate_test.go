package secrets

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// states are the keys of one kind, oldest first.
func states(t *testing.T, dir string, kind Kind) string {
	t.Helper()
	list, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range list {
		if k.Kind == kind {
			out = append(out, string(k.State))
		}
	}
	return strings.Join(out, " ")
}

func must(t *testing.T) func(KeyInfo, error) KeyInfo {
	return func(k KeyInfo, err error) KeyInfo {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
}

func TestRotation(t *testing.T) {
	for _, kind := range []Kind{Sealing, Signing} {
		t.Run(string(kind), func(t *testing.T) {
			dir, _ := create(t)
			want := func(list string) {
				t.Helper()
				if got := states(t, dir, kind); got != list {
					t.Fatalf("keys are %q, want %q", got, list)
				}
			}
			want("primary")
			if _, err := Promote(dir, kind); !errors.Is(err, ErrNoNext) {
				t.Errorf("promoting nothing: %v", err)
			}
			next := must(t)(Add(dir, kind))
			if next.State != Next || next.Kind != kind {
				t.Errorf("added %+v", next)
			}
			want("primary next")
			if _, err := Add(dir, kind); !errors.Is(err, ErrNextWaits) || !strings.Contains(err.Error(), next.ID) {
				t.Errorf("a second next key: %v", err)
			}
			if promoted := must(t)(Promote(dir, kind)); promoted.ID != next.ID || promoted.State != Primary {
				t.Errorf("promoted %+v, want %s", promoted, next.ID)
			}
			want("old primary")
			if _, err := Retire(dir, next.ID); !errors.Is(err, ErrInUse) {
				t.Errorf("retiring the primary: %v", err)
			}
			for _, unknown := range []string{"", "seal-", "seal-1", "sign-0000000000000000", "nonsense"} {
				if _, err := Retire(dir, unknown); !errors.Is(err, ErrNoSuchKey) {
					t.Errorf("retiring %q: %v", unknown, err)
				}
			}
			must(t)(Add(dir, kind))
			want("old primary next")
			list, err := List(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range list {
				if k.Kind == kind && k.State == Old {
					if gone := must(t)(Retire(dir, k.ID)); gone != k {
						t.Errorf("retired %+v, want %+v", gone, k)
					}
				}
			}
			want("primary next")
		})
	}
}

func TestOldKeysOpenAndNextKeysAreKnown(t *testing.T) {
	dir, s := create(t)
	before, err := s.Seal([]byte("a"), "acme", "op")
	if err != nil {
		t.Fatal(err)
	}
	first := must(t)(Add(dir, Sealing))
	_, slow := dir, s // a replica that has not read the folder since
	quick, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := slow.Reload(); !changed || err != nil {
		t.Fatalf("reload: %v, %v", changed, err)
	}
	must(t)(Promote(dir, Sealing))
	if changed, err := quick.Reload(); !changed || err != nil {
		t.Fatalf("reload: %v, %v", changed, err)
	}
	after, err := quick.Seal([]byte("b"), "acme", "op")
	if err != nil {
		t.Fatal(err)
	}
	// slow knows the new key, and does not use it yet.
	for name, open := range map[string]struct {
		s      *Secrets
		sealed []byte
	}{"old by quick": {quick, before}, "new by slow": {slow, after}} {
		if _, err := open.s.Unseal(open.sealed, "acme", "op"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(Retire(dir, list[0].ID))
	if _, err := quick.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := quick.Unseal(before, "acme", "op"); err == nil {
		t.Error("what a retired key sealed is opened")
	}
	if _, err := quick.Unseal(after, "acme", "op"); err != nil {
		t.Errorf("%s: %v", first.ID, err)
	}
}

func primaries(s *Secrets) (ids []string) {
	for _, k := range s.SigningKeys() {
		if k.Primary {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// A folder from before there were signing keys works; the first key made for it
// is used at once.
func TestFolderWithoutSigningKeys(t *testing.T) {
	dir, _ := create(t)
	if err := os.Remove(filepath.Join(dir, signingFile)); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir)
	if err != nil || len(s.SigningKeys()) != 0 {
		t.Fatalf("got %v, %v", s.SigningKeys(), err)
	}
	if sealed, err := s.Seal([]byte("a"), "acme", "op"); err != nil || len(sealed) == 0 {
		t.Errorf("sealing: %v", err)
	}
	if list, err := List(dir); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	made := must(t)(Add(dir, Signing))
	if made.State != Primary {
		t.Errorf("made %+v", made)
	}
	if changed, err := s.Reload(); !changed || err != nil || len(primaries(s)) != 1 || primaries(s)[0] != made.ID {
		t.Errorf("reload: %v, %v, %v", changed, err, primaries(s))
	}
	if info, err := os.Stat(filepath.Join(dir, signingFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestReloadKeepsWhatItHas(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"provider key of others": func(t *testing.T, dir string) {
			t.Helper()
			write(t, filepath.Join(dir, providerKeyFile), strings.Repeat("ab", secretBytes))
		},
		"signing keys that others may read": func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(filepath.Join(dir, signingFile), 0o640); err != nil {
				t.Fatal(err)
			}
		},
		"half a file": func(t *testing.T, dir string) { t.Helper(); write(t, filepath.Join(dir, signingFile), `{"primary":`) },
		"no sealing keyset": func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, sealingFile)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := create(t)
			must(t)(Add(dir, Signing)) // which would be taken over
			had := primaries(s)
			spoil(t, dir)
			if changed, err := s.Reload(); changed || err == nil {
				t.Errorf("reload: %v, %v", changed, err)
			}
			if got := primaries(s); len(s.SigningKeys()) != 1 || len(got) != 1 || got[0] != had[0] {
				t.Errorf("keys are %v", got)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSigningKeysThatAreRefused(t *testing.T) {
	dir, s := create(t)
	key := s.SigningKeys()[0]
	raw, err := os.ReadFile(filepath.Join(dir, signingFile))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	element := text[strings.Index(text, "{\n      "):strings.LastIndex(text, "\n  ]")]
	for want, file := range map[string]string{
		"not a file of signing keys":  text + "x",
		"names none":                  strings.Replace(text, `"primary": "`+key.ID, `"primary": "`, 1),
		"is there twice":              strings.Replace(text, element, element+","+element, 1),
		"not the id of this key":      strings.Replace(text, `"id": "`+key.ID, `"id": "sign-0000000000000000`, 1),
		"want 32 bytes in base64url":  strings.Replace(text, `"seed": "`, `"seed": "AAAA`, 1),
		"not a file of signing keys ": strings.Replace(text, `"keys"`, `"kyes"`, 1),
	} {
		if file == text {
			t.Fatalf("%s: the file is as it was", want)
		}
		write(t, filepath.Join(dir, signingFile), file)
		_, err := Load(dir)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) || !strings.Contains(err.Error(), signingFile) {
			t.Errorf("want %q, got %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), text[strings.Index(text, `"seed": "`)+9:][:12]) {
			t.Errorf("%s: the key is shown: %v", want, err)
		}
	}
}

// What a crash left beside the files is passed over, and every moment of a
// change leaves a folder that can be used: the file is replaced as a whole.
func TestLeftOversOfACrash(t *testing.T) {
	dir, s := create(t)
	write(t, filepath.Join(dir, "."+signingFile+".123"), "half")
	if changed, err := s.Reload(); changed || err != nil {
		t.Errorf("reload: %v, %v", changed, err)
	}
	must(t)(Add(dir, Signing))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("in the folder: %v, %v", entries, err)
	}
}

func TestChangesWaitForOneAnother(t *testing.T) {
	dir, _ := create(t)
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			_, err := Add(dir, Signing)
			done <- err
		}()
	}
	made := 0
	for range cap(done) {
		switch err := <-done; {
		case err == nil:
			made++
		case !errors.Is(err, ErrNextWaits):
			t.Error(err)
		}
	}
	if got := states(t, dir, Signing); made != 1 || got != "primary next" {
		t.Errorf("%d made, keys are %q", made, got)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, s := create(t)
		var log bytes.Buffer
		go s.Watch(t.Context(), time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		must(t)(Add(dir, Signing))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(s.SigningKeys()) != 2 || strings.Count(log.String(), "taken over") != 1 {
			t.Errorf("keys are %v; log: %s", s.SigningKeys(), log.String())
		}
		write(t, filepath.Join(dir, signingFile), "{")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(s.SigningKeys()) != 2 || strings.Count(log.String(), "refused") != 1 {
			t.Errorf("keys are %v; log: %s", s.SigningKeys(), log.String())
		}
	})
}
