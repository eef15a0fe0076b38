package dispatch

import (
	"crypto/sha256"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
)

// usualRequest is how long most requests are, with their versions, in bytes: they
// are hashed without memory of their own.
const usualRequest = 1 << 10

// requestHash is what is frozen at the first attempt: what will be sent, under
// which versions.
func requestHash(action *actions.Action, call actions.Call) (ledger.Hash, error) {
	text := make([]byte, 0, usualRequest)
	for _, name := range [...]string{action.Spec.Type, action.Spec.Version, action.Spec.Contract.Version} {
		text = append(append(text, name...), 0)
	}
	r, ok := action.Adapter.(actions.Renderer)
	if !ok {
		return sha256.Sum256(call.Arguments.AppendJSON(text)), nil
	}
	rendered, err := r.Render(call)
	if err != nil {
		return ledger.Hash{}, fmt.Errorf("dispatch: render %s: %w", action.Spec.Type, err)
	}
	return sha256.Sum256(append(text, rendered...)), nil
}
