package identity

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No bytes in the identity file make it panic; what is refused is refused with a
// reason, and what is taken names who may come in.
func FuzzOpen(f *testing.F) {
	for _, seed := range []string{
		"", goodFile, "api_keys: true\n", "issuers: []\n", "issuers: [{}]\n", "? a\n: b\n", "&a *a", "{", "- - -\n", "\ufeff---\n...\n",
		strings.Replace(goodFile, "https://", "http://", 1), strings.Replace(goodFile, "claim: org", "claim: []", 1),
		strings.Replace(goodFile, "agents/*", "**", 1), goodFile + goodFile,
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "identity.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(FileOptions{Path: path, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		r := file.current()
		if r.noKeys && len(r.issuers) == 0 && len(r.certificates) == 0 {
			t.Errorf("%q lets nobody in, and was taken", data)
		}
	})
}
