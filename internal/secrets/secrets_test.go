package secrets

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func create(t *testing.T) (string, *Secrets) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	if err := Create(dir); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func TestSealedArgumentsBelongToTheirOperation(t *testing.T) {
	_, s := create(t)
	sealed, err := s.Seal([]byte(`{"to":"li@example.test"}`), "acme", "op-1")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("example")) {
		t.Error("it can be read")
	}
	if plain, err := s.Unseal(sealed, "acme", "op-1"); err != nil || string(plain) != `{"to":"li@example.test"}` {
		t.Errorf("got %s, %v", plain, err)
	}
	_, other := create(t)
	altered := bytes.Clone(sealed)
	altered[len(altered)-1]++
	for name, open := range map[string]func() ([]byte, error){
		"other operation":    func() ([]byte, error) { return s.Unseal(sealed, "acme", "op-2") },
		"other tenant":       func() ([]byte, error) { return s.Unseal(sealed, "globex", "op-1") },
		"other installation": func() ([]byte, error) { return other.Unseal(sealed, "acme", "op-1") },
		"altered":            func() ([]byte, error) { return s.Unseal(altered, "acme", "op-1") },
	} {
		if plain, err := open(); err == nil {
			t.Errorf("%s: opened %s", name, plain)
		}
	}
	if s.Fingerprint() == other.Fingerprint() {
		t.Error("two installations have one fingerprint")
	}
}

func TestLoadIsStable(t *testing.T) {
	dir, s := create(t)
	again, err := Load(dir)
	if err != nil || again.Fingerprint() != s.Fingerprint() {
		t.Errorf("another fingerprint after a restart, or %v", err)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	dir, s := create(t)
	if err := Create(dir); err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("got %v", err)
	}
	if again, err := Load(dir); err != nil || again.Fingerprint() != s.Fingerprint() {
		t.Errorf("the secrets changed, or %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	change := map[string]func(dir string) error{
		"can be read by others": func(dir string) error { return os.Chmod(filepath.Join(dir, providerKeyFile), 0o644) },
		"want 32 bytes": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, providerKeyFile), []byte("abcd"), 0o600)
		},
		"secrets create": func(dir string) error { return os.Remove(filepath.Join(dir, providerKeyFile)) },
		sealingFile:      func(dir string) error { return os.WriteFile(filepath.Join(dir, sealingFile), []byte("{}"), 0o600) },
	}
	for want, do := range change {
		dir, _ := create(t)
		if err := do(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// A Create that was interrupted leaves something that is neither used nor
// silently replaced.
func TestHalfASetIsRefused(t *testing.T) {
	dir, _ := create(t)
	if err := os.Remove(filepath.Join(dir, providerKeyFile)); err != nil {
		t.Fatal(err)
	}
	if !Exist(dir) {
		t.Error("half a set counts as none")
	}
	if err := Create(dir); err == nil {
		t.Error("half a set was completed with another secret")
	}
}
