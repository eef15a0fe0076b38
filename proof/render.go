package proof

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/onceward/onceward/actions"
)

// renderings is how often the same call is rendered: a map that is written in
// random order shows itself within a few.
const renderings = 8

// checkRender says what is wrong with what an adapter renders; empty: nothing.
func checkRender(r actions.Renderer, s *sample) string {
	call := actions.Call{
		Tenant: "acme", OperationID: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e",
		ProviderKey: "0123456789abcdefghijklmnop", Arguments: s.example,
	}
	first, err := r.Render(call)
	if err != nil {
		return fmt.Sprintf("the example cannot be rendered: %v", err)
	}
	for range renderings - 1 {
		again, err := r.Render(call)
		if err != nil || !bytes.Equal(first, again) {
			return "the same call rendered twice gives other bytes: no second attempt could be made"
		}
	}
	for _, secret := range s.Secrets {
		if secret != "" && strings.Contains(string(first), secret) {
			return "a credential is among the rendered bytes: after it was changed no second attempt could be made"
		}
	}
	if s.spec.Contract.Keys.Honoured {
		call.ProviderKey = "ponmlkjihgfedcba9876543210"
		if other, err := r.Render(call); err == nil && bytes.Equal(first, other) {
			return "another provider key renders the same bytes: the key is not in the request"
		}
	}
	return ""
}
