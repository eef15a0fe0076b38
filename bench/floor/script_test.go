package floor

import (
	"strings"
	"testing"
)

func TestScriptHasNoParameterLeft(t *testing.T) {
	text, err := script(strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "$") {
		t.Errorf("a parameter is left:\n%s", text)
	}
	for _, want := range []string{"\\gset", ":key", ":id", "INSERT INTO leases", "gen_random_uuid()) AS key"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}
