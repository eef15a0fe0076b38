package signing

import (
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/onceward/onceward/internal/jws"
)

// KeysPath is where the public keys are served.
const KeysPath = "/.well-known/jwks.json"

// keysMaxAge is how long a copy of the keys may be kept, in seconds. A next key
// must be known for longer than that before it is promoted.
const keysMaxAge = 300

// PublicKeys are the keys as a JSON Web Key Set: next, primary and old ones.
func (s *Signer) PublicKeys() ([]byte, error) { return PublicKeys(s.o.Keys()) }

// PublicKeys are the public halves of keys as a JSON Web Key Set.
func PublicKeys(keys []Key) ([]byte, error) {
	var public []jws.Key
	for _, k := range keys {
		key := make(ed25519.PublicKey, ed25519.PublicKeySize)
		copy(key, k.Private[ed25519.SeedSize:])
		public = append(public, jws.Key{ID: k.ID, Public: key})
	}
	return jws.MarshalKeys(public)
}

// Handler serves the public keys at KeysPath to whoever asks: they are no
// secret. An installation without signing keys serves an empty set.
func (s *Signer) Handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+KeysPath, func(w http.ResponseWriter, _ *http.Request) {
		keys, err := s.PublicKeys()
		if err != nil {
			log.Error("public keys cannot be served", "error", err)
			http.Error(w, "not available", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Header().Set("Content-Length", strconv.Itoa(len(keys)))
		w.Header().Set("Cache-Control", "public, max-age="+strconv.Itoa(keysMaxAge))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(keys)
	})
	return mux
}
