package pgurl_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/pgurl"
)

// Whatever is wrong, no part of the password is in what is said of it; what is right
// is read.
func TestNoPasswordIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, says string // says nothing: it is read
	}{
		{"postgres://serve:planted@db.example:5432/ledger", ""},
		{"postgres://serve:planted%40x@db.example,other.example/ledger", ""},
		{"host=/run/postgresql user=serve password='planted x'", ""},
		{"postgres://serve:planted@db.example:x/ledger", "invalid port"},
		{"postgres://serve:planted/planted@db.example/ledger", "invalid port"},
		{"postgres://serve:planted%zz@db.example/ledger", "percent-encoded"},
		{"postgres://serve:planted planted@db.example/ledger", "%20"},
		{"postgres://serve:planted`: planted@db.example:x/ledger", "cannot be read"},
		{"postgres://serve:x@planted@db.example/ledger", "the host has an @"},
		{"postgres://serve:x@planted@db.example,other.example/ledger", "the host has an @"},
		{"postgres://db.example:x/ledger?user=serve&password=planted", "invalid port"},
		{"postgres://serve:planted@db.example/ledger?sslmode=most", "sslmode is invalid"},
		{"postgres:://serve:planted@db.example/ledger", "keyword/value"},
		{"serve:planted@db.example/ledger", "keyword/value"},
		{"host=db.example port=x password=planted", "invalid port"},
		{"host=db.example port=x password = 'planted planted'", "invalid port"},
		{"host=db.example port=x password = planted", "invalid port"},
	} {
		_, err := pgurl.Parse(c.text)
		_, poolErr := pgurl.ParsePool(c.text)
		for _, err := range []error{err, poolErr} {
			switch {
			case c.says == "" && err != nil:
				t.Errorf("%s: %v", c.text, err)
			case c.says == "":
			case err == nil || !strings.Contains(err.Error(), c.says):
				t.Errorf("%s: %v, want %q", c.text, err, c.says)
			case strings.Contains(err.Error(), "planted"):
				t.Errorf("%s: the password is in %v", c.text, err)
			}
		}
	}
	if _, err := pgurl.ParsePool("postgres://db.example/ledger?pool_max_conns=many"); !errors.As(err, new(*pgurl.Error)) {
		t.Errorf("a pool of how many: %v", err)
	}
}
