package apikey

import "testing"

// Whatever text comes: no panic, and a key that is read is written as it came, so
// that no two texts are one credential.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "ow_", "ow_a.b.c", "ow_..", New("acme").Text(), " " + New("acme").Text(), "ow_acme.x.y.z", "ow_\x00.a.b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := Parse(text)
		if err == nil && k.Text() != text {
			t.Errorf("%q is read as %q", text, k.Text())
		}
	})
}
