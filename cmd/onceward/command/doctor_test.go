package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a contract promises can be looked at where the provider's secrets are not: on
// the machine of somebody who reviews the files.
func TestDoctorReadsContractsWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := run(t, "catalog", "copy", "stripe", dir); code != exitOK {
		t.Fatal(stderr)
	}
	doctor := func() (stdout string) {
		t.Helper()
		// Nothing listens on port 1: the database is not what this is about.
		code, stdout, _ := run(t, "doctor", "--database-url=postgres://onceward@127.0.0.1:1/onceward", "--config="+filepath.Join(dir, "stripe"))
		if code != exitError {
			t.Errorf("exit code %d with a database that is away", code)
		}
		return stdout
	}

	for _, name := range []string{"STRIPE_API_KEY", "STRIPE_WEBHOOK_SECRET"} {
		t.Setenv(name, "") // puts back what was there
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	without := doctor()
	for _, want := range []string{"FAIL  definitions", "STRIPE_API_KEY is not set", "action stripe.refund.create", "by the same key"} {
		if !strings.Contains(without, want) {
			t.Errorf("without secrets there is no %q:\n%s", want, without)
		}
	}

	t.Setenv("STRIPE_API_KEY", "sk_test_made_up")
	t.Setenv("STRIPE_WEBHOOK_SECRET", "whsec_made_up")
	with := doctor()
	for _, unwanted := range []string{"FAIL  definitions", "is not set"} {
		if strings.Contains(with, unwanted) {
			t.Errorf("with secrets there is %q:\n%s", unwanted, with)
		}
	}
	contracts := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "action stripe.") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	if a, b := contracts(without), contracts(with); len(a) == 0 || strings.Join(a, "") != strings.Join(b, "") {
		t.Errorf("contracts without secrets:\n%s\nwith them:\n%s", strings.Join(a, ""), strings.Join(b, ""))
	}

	// Files that are wrong have no contracts.
	broken := filepath.Join(dir, "stripe", "provider.yaml")
	if err := os.WriteFile(broken, []byte("kind: provider\nname: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := doctor(); !strings.Contains(got, "FAIL  definitions") || len(contracts(got)) > 0 {
		t.Errorf("of files that are wrong:\n%s", got)
	}
}
