package app

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/secrets"
	"github.com/onceward/onceward/internal/signing"
)

// Issuer is the name of an installation that was given none: the start of the
// fingerprint of its secrets, which every replica shares.
func Issuer(s *secrets.Secrets) string {
	fingerprint := s.Fingerprint()
	return "urn:onceward:" + hex.EncodeToString(fingerprint[:16])
}

// PublicKeys are the keys that an installation serves, as a JSON Web Key Set.
func PublicKeys(s *secrets.Secrets) ([]byte, error) { return signing.PublicKeys(signingKeys(s)) }

func signingKeys(s *secrets.Secrets) []signing.Key {
	var keys []signing.Key
	for _, k := range s.SigningKeys() {
		keys = append(keys, signing.Key{ID: k.ID, Private: k.Private, Primary: k.Primary})
	}
	return keys
}

// newSigner signs with the keys of the secrets as they are at that moment.
func newSigner(c Config) (*signing.Signer, error) {
	issuer := c.Issuer
	if issuer == "" {
		issuer = Issuer(c.Secrets)
	}
	return signing.New(signing.Options{Issuer: issuer, Keys: func() []signing.Key { return signingKeys(c.Secrets) }})
}

// tellSigning says in the log who signs here, which services must be told.
func (a *App) tellSigning() {
	if a.signer.Ready() {
		a.Log.Info("signing operation tokens and receipts", "issuer", a.signer.Issuer())
		return
	}
	a.Log.Warn("nothing is signed: the secrets are from before there were signing keys (onceward secrets rotate DIR --signing makes one)", "issuer", a.signer.Issuer())
}

// newPublicServer serves what is no secret: the public keys.
func newPublicServer(signer *signing.Signer, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           signer.Handler(log),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelInfo),
	}
}

func (a *App) servePublic() error {
	listener := a.bounded(a.HTTP)
	if a.HTTPTLS != nil {
		listener = tls.NewListener(listener, a.HTTPTLS)
	}
	if err := a.public.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("HTTP: %w", err)
	}
	return nil
}

func (a *App) stopPublic() {
	ctx, cancel := context.WithTimeout(context.Background(), a.ShutdownGrace)
	defer cancel()
	if err := a.public.Shutdown(ctx); err != nil {
		_ = a.public.Close() // they are cut off
	}
}
