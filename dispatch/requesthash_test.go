package dispatch

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
)

// rendering is an adapter that says what it will send.
type rendering struct {
	prompt
	text string
	err  error
}

func (r rendering) Render(actions.Call) ([]byte, error) { return []byte(r.text), r.err }

// Operations that are under way have this hash on record: another one would stop them.
func TestRequestHash(t *testing.T) {
	t.Parallel()
	args, err := actions.ParseArguments([]byte(`{"b":1.0,"a":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	spec := actions.Spec{Type: "pay.charge", Version: "2", Contract: actions.Contract{Version: "3"}}
	long := strings.Repeat("x", 2*usualRequest)
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		adapter actions.Adapter
		sent    string
		err     error
	}{
		"arguments": {adapter: prompt{}, sent: `{"a":"x","b":1}`},
		"rendered":  {adapter: rendering{text: "POST /"}, sent: "POST /"},
		"long":      {adapter: rendering{text: long}, sent: long},
		"nothing":   {adapter: rendering{}},
		"broken":    {adapter: rendering{text: "x", err: broken}, err: broken},
	} {
		got, err := requestHash(&actions.Action{Adapter: test.adapter, Spec: spec}, actions.Call{Arguments: args})
		if !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
		if want := sha256.Sum256([]byte("pay.charge\x002\x003\x00" + test.sent)); err == nil && got != want {
			t.Errorf("%s: hashed otherwise", name)
		}
	}
}
