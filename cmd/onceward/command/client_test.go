package command

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestOneLine(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"the package is left out":      {errors.New("ledger: the schema is missing"), "the schema is missing"},
		"several of them":              {fmt.Errorf("secrets: %w", errors.New("ledger: away")), "away"},
		"one a line":                   {errors.Join(errors.New("secrets: one"), errors.New("secrets: two")), "one; two"},
		"a field of that name stays":   {errors.New("stripe.yaml:3:4: secrets: want a list"), "stripe.yaml:3:4: secrets: want a list"},
		"a file of that name stays":    {errors.New("open ledger: no such file"), "open ledger: no such file"},
		"what is no package stays":     {errors.New("stripe: is no file"), "stripe: is no file"},
		"a package and nothing behind": {errors.New("ledger"), "ledger"},
		"a list below a line, and what is said twice": {
			fmt.Errorf("ledger: connect: %s", "failed to connect:\n\tdb:1: refused\n\tdb:1: refused\n\tdb:2: refused\n"),
			"connect: failed to connect: db:1: refused; db:2: refused",
		},
		"what a server said": {
			fmt.Errorf("ledger: %w", status.Error(codes.NotFound, "no such operation")), "NotFound: no such operation",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := oneLine(test.err); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
