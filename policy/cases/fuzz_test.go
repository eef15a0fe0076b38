package cases

import "testing"

// No bytes of a table of cases make it panic.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "kind: policy_test\n", "kind: policy_test\ntenant: acme\ncases: [{name: a, expect: {}}]\n", "? a\n: b\n", "&a *a", "{", "- - -\n", "\ufeff---\n...\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Read("cases_test.yaml", data)
		if (table == nil) == (err == nil) || err != nil && err.Error() == "" {
			t.Errorf("%q: table %v, error %v", data, table, err)
		}
	})
}
