package apikey

import (
	"strings"
	"testing"
)

func TestKeysRoundTrip(t *testing.T) {
	key := New("acme-2")
	parsed, err := Parse(key.Text())
	if err != nil || parsed != key {
		t.Fatalf("got %v, %v", parsed, err)
	}
	hash := key.Hash()
	if !parsed.Matches(hash[:]) {
		t.Error("a key does not match its own hash")
	}
	if strings.Contains(key.String(), key.secret) || !strings.HasPrefix(key.Text(), key.String()) {
		t.Errorf("String is %q", key.String())
	}
}

func TestOtherKeysDoNotMatch(t *testing.T) {
	key := New("acme")
	hash := key.Hash()
	otherTenant, otherID, otherSecret := key, key, key
	otherTenant.Tenant, otherID.ID, otherSecret.secret = "globex", New("acme").ID, New("acme").secret
	for name, other := range map[string]Key{"tenant": otherTenant, "id": otherID, "secret": otherSecret} {
		if other.Matches(hash[:]) {
			t.Errorf("a key with another %s matches", name)
		}
	}
	if key.Matches(nil) {
		t.Error("a key matches no hash")
	}
}

func TestParseRefuses(t *testing.T) {
	good := New("acme").Text()
	for name, text := range map[string]string{
		"nothing": "", "no prefix": strings.TrimPrefix(good, "ow_"), "no secret": New("acme").String(), "no tenant": "ow_.abc.0123456789abcdef0123",
		"upper case": strings.ToUpper(good), "more after it": good + "\n", "a fourth part": good + ".x", "a long tenant": "ow_" + strings.Repeat("a", 64) + ".abc.0123456789abcdef0123",
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s: %q was taken for a key", name, text)
		}
	}
}
