package providers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/internal/providers"
)

func TestResolveSecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("STRIPE_KEY", "sk_1")
	t.Setenv("STRIPE_KEY_ACME_EU", "sk_2")
	t.Setenv("EMPTY_KEY", "")
	write("acme/key", "sk_3\n")
	write("other", "sk_4")
	for _, test := range []struct {
		ref          definition.Secret
		tenant, want string
		fails        string
	}{
		{definition.Secret{Env: "STRIPE_KEY"}, "acme", "sk_1", ""},
		{definition.Secret{Env: "STRIPE_KEY_${TENANT}"}, "acme-eu", "sk_2", ""},
		{definition.Secret{Env: "STRIPE_KEY_${TENANT}"}, "globex", "", "STRIPE_KEY_GLOBEX is not set"},
		{definition.Secret{Env: "STRIPE_KEY_${TENANT}"}, "acme_eu", "", "use a file"},
		{definition.Secret{Env: "STRIPE_KEY_${TENANT}"}, "Acme-eu", "", "use a file"},
		{definition.Secret{Env: "STRIPE_KEY_${TENANT}"}, "", "", "use a file"},
		{definition.Secret{File: filepath.Join(dir, "${tenant}", "other")}, "", "", "cannot be a part of a path"},
		{definition.Secret{File: filepath.Join(dir, "${tenant}")}, "a\x00b", "", "cannot be a part of a path"},
		{definition.Secret{File: dir}, "acme", "", "is no regular file"},
		{definition.Secret{File: "/dev/zero"}, "acme", "", "is no regular file"},
		{definition.Secret{File: filepath.Join(dir, "other")}, "../acme", "sk_4", ""},
		{definition.Secret{Env: "EMPTY_KEY"}, "acme", "", "EMPTY_KEY is not set"},
		{definition.Secret{File: filepath.Join(dir, "${tenant}", "key")}, "acme", "sk_3", ""},
		{definition.Secret{File: filepath.Join(dir, "${tenant}", "key")}, "globex", "", "no such file"},
		{definition.Secret{File: filepath.Join(dir, "x", "${tenant}")}, "../other", "", "cannot be a part of a path"},
		{definition.Secret{File: filepath.Join(dir, "x", "${tenant}", "other")}, "..", "", "cannot be a part of a path"},
		{definition.Secret{File: write("blank", " \n")}, "acme", "", "is empty"},
		{definition.Secret{File: write("huge", strings.Repeat("x", 65<<10))}, "acme", "", "is longer than"},
	} {
		got, err := providers.ResolveSecret(test.ref, test.tenant)
		if got != test.want || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%+v of %s: got %q, %v", test.ref, test.tenant, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "xxxx") {
			t.Error("the error holds the secret")
		}
	}
}

func TestMissingSecrets(t *testing.T) {
	t.Setenv("THERE_KEY", "x")
	fsys := fstest.MapFS{}
	for _, name := range []string{"b", "a", "c"} {
		fsys[name+".yaml"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(`kind: provider
name: NAME
version: "1"
http:
  base_url: https://NAME.example
  tls: {ca: /nowhere/NAME.pem}
  auth: {basic: {user_secret: {env: THERE_KEY}, password: {env: GONE_NAME_KEY}}}
webhooks:
  verify: {scheme: github, secrets: [{file: "/nowhere/${tenant}"}, {file: /nowhere/hook}]}
  events: [{if: "true", id: event.id, operation: event.op, is: accepted}]
`, "NAME", name))}
	}
	set, err := definition.LoadFS(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range providers.MissingSecrets(set) {
		got = append(got, f.Place.File+" "+f.Field)
		if f.Place.Line < 2 {
			t.Errorf("%s: not at its field", f)
		}
	}
	want := []string{}
	for _, name := range []string{"a", "b", "c"} {
		want = append(want, name+".yaml http.auth.basic.password", name+".yaml webhooks.verify.secrets[1]", name+".yaml http.tls.ca")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
