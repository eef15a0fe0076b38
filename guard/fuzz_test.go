package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/guard"
)

// Whatever comes in the header, and whatever is written: nobody gets through but
// with the token for just this, and it is performed once at most.
func FuzzToken(f *testing.F) {
	good := sign(f, claims(f))
	other := claims(f)
	other.Audience = "another"
	late := claims(f)
	late.ExpiresAt = 1
	for _, token := range []string{"", "Bearer x", good, good + good, strings.ToUpper(good), " " + good, sign(f, other), sign(f, late), sign(f, map[string]any{"aud": 1}), sign(f, []int{1})} {
		f.Add(token, `{"amount":1000}`)
		f.Add(token, `{"amount": 1e3}`)
		f.Add(token, `{`)
	}
	f.Fuzz(func(t *testing.T, token, body string) {
		performed := 0
		handler := guarded(t, guard.Options{Store: guard.NewMemory(guard.MemoryOptions{Now: now})}).Require(action)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			performed++
			w.WriteHeader(http.StatusCreated)
		}))
		for range 2 {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			req.Header.Set(guard.TokenHeader, token)
			handler.ServeHTTP(httptest.NewRecorder(), req)
		}
		if performed > 1 {
			t.Errorf("performed %d times", performed)
		}
		if performed > 0 && strings.TrimSpace(token) != good {
			t.Errorf("performed with token %q", token)
		}
	})
}
