package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/internal/signing"
	"github.com/onceward/onceward/ledger"
)

// ok runs a command that must succeed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != exitOK {
		t.Fatalf("onceward %v: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

// refused runs a command that must fail with one line that matches.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	code, stdout, stderr := run(t, args...)
	if code != exitError || stdout != "" || !regexp.MustCompile(want).MatchString(stderr) {
		t.Errorf("onceward %v: exit code %d, output %q, errors %q, want %s", args, code, stdout, stderr, want)
	}
}

func TestRotationOnTheCommandLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	ok(t, "secrets", "create", dir)
	list := func() string { t.Helper(); return ok(t, "secrets", "list", dir) }
	matches := func(text, want string) {
		t.Helper()
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	if set, err := signing.ParseKeys([]byte(ok(t, "secrets", "public", dir))); err != nil || len(set) != 1 {
		t.Errorf("public keys: %v, %v", set, err)
	}
	matches(list(), `seal-\d+ +sealing +primary +-\nsign-[0-9a-f]{16} +signing +primary +20`)
	first := regexp.MustCompile(`sign-\w+`).FindString(list())
	refused(t, "there is no next key", "secrets", "promote", dir)
	refused(t, "there is no next key", "secrets", "promote", dir, "--signing")
	matches(ok(t, "secrets", "rotate", dir, "--signing"), `sign-\w+ is the next signing key.*secrets promote`)
	refused(t, "next key is there already", "secrets", "rotate", dir, "--signing")
	matches(ok(t, "secrets", "promote", dir), `^sign-\w+ is the signing key from now on`)
	matches(list(), `(?s)seal-\d+ +sealing +primary.*`+first+` +signing +old.*sign-\w+ +signing +primary`)
	refused(t, `keep a copy of /\.well-known/jwks\.json(.|\n)*nothing was changed: add --yes`, "secrets", "retire", dir, first)
	matches(list(), first)
	matches(ok(t, "secrets", "retire", dir, first, "--yes"), first+" is gone")
	refused(t, "no such key", "secrets", "retire", dir, first, "--yes")
	refused(t, "no such key", "secrets", "retire", dir, first)
	refused(t, "it is the primary", "secrets", "retire", dir, regexp.MustCompile(`seal-\d+`).FindString(list()))
	if text := ok(t, "secrets", "rotate", dir); strings.Count(text, "is the next") != 2 {
		t.Errorf("both kinds: %s", text)
	}
}

func TestOldFolderOnTheCommandLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	ok(t, "secrets", "create", dir)
	if err := os.Remove(filepath.Join(dir, "signing-keys.json")); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := run(t, "secrets", "list", dir); code != exitOK || strings.Contains(stdout, "signing") || !strings.Contains(stderr, "nothing is signed") {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
	refused(t, "has no signing key", "secrets", "public", dir)
	if text := ok(t, "secrets", "rotate", dir, "--signing"); !strings.Contains(text, "is the signing key") {
		t.Errorf("got %s", text)
	}
}

func TestReceiptVerify(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "secrets")
	if err := secrets.Create(folder); err != nil {
		t.Fatal(err)
	}
	loaded, err := secrets.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	key := loaded.SigningKeys()[0]
	issuer := app.Issuer(loaded)
	signer, err := signing.New(signing.Options{Issuer: issuer, Keys: func() []signing.Key {
		return []signing.Key{{ID: key.ID, Private: key.Private, Primary: true}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := signer.Receipt(ledger.Operation{
		Tenant: "acme", ID: "op-1", Key: "k", ActionType: "a.b", State: ledger.Succeeded, Attempt: 1, ProviderReference: "re_1",
		Receipt: []byte(`{"id":"re_1"}`), SettledAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := signer.PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	receipt, keys := file("receipt.jws", text+"\n"), file("jwks.json", string(set))
	out := ok(t, "receipt", "verify", receipt, "--keys="+keys, "--issuer="+issuer)
	for _, want := range []string{"The signature is good", "acme", "op-1", "a.b", "re_1", "2026-03-01T12:00:00Z", issuer} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	var said signing.Receipt
	if err := json.Unmarshal([]byte(ok(t, "receipt", "verify", receipt, "--keys="+keys, "--json")), &said); err != nil || said.OperationID != "op-1" {
		t.Errorf("as JSON: %+v, %v", said, err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != signing.KeysPath {
			http.Redirect(w, r, signing.KeysPath, http.StatusFound)
			return
		}
		_, _ = w.Write(set)
	}))
	defer server.Close()
	ok(t, "receipt", "verify", receipt, "--keys="+server.URL+signing.KeysPath)

	refused(t, `receipt\.jws.*not from urn:other`, "receipt", "verify", receipt, "--keys="+keys, "--issuer=urn:other")
	refused(t, `signature does not match`, "receipt", "verify", file("forged.jws", text[:len(text)-3]+"AAA"), "--keys="+keys)
	refused(t, `no signed receipt`, "receipt", "verify", keys, "--keys="+keys)
	refused(t, `no signed receipt`, "receipt", "verify", "-", "--keys="+keys) // nothing comes
	refused(t, `no such file`, "receipt", "verify", "nowhere.jws", "--keys="+keys)
	refused(t, `--keys.*no such file`, "receipt", "verify", receipt, "--keys=nowhere.json")
	refused(t, `--keys.*not a JSON Web Key Set`, "receipt", "verify", receipt, "--keys="+receipt)
	refused(t, `--keys.*HTTP 302`, "receipt", "verify", receipt, "--keys="+server.URL+"/else")
	refused(t, `--keys.*want https`, "receipt", "verify", receipt, "--keys=http://onceward.example.com/jwks.json")
}
