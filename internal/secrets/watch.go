package secrets

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// errOtherProviderKey: the folder is another installation's.
var errOtherProviderKey = errors.New("secrets: the secret of provider keys is another one: it must never change, so nothing was taken over")

// Reload takes over what was rotated in the folder since, and reports whether
// anything was. On an error everything stays as it is.
func (s *Secrets) Reload() (changed bool, err error) {
	secret, err := readProviderKey(s.dir)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(secret, s.ProviderKey) {
		return false, errOtherProviderKey
	}
	fresh, err := readKeys(s.dir)
	if err != nil {
		return false, err
	}
	had := s.keys.Load()
	if bytes.Equal(fresh.sealing.raw, had.sealing.raw) && bytes.Equal(fresh.signing.raw, had.signing.raw) {
		return false, nil
	}
	s.keys.Store(fresh)
	return true, nil
}

// Watch reloads every interval until ctx ends. What goes wrong is logged once,
// and tried again.
func (s *Secrets) Watch(ctx context.Context, interval time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := s.Reload()
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			log.Error("secrets changed: refused, the keys in use stay", "error", err)
		case err == nil && changed:
			log.Info("secrets changed: taken over", "keys", s.inUse())
		}
		if err == nil {
			last = ""
		}
	}
}

// inUse says which keys there are and how they stand.
func (s *Secrets) inUse() string {
	k := s.keys.Load()
	var parts []string
	for _, info := range append(k.sealing.list(), k.signing.list()...) {
		parts = append(parts, info.ID+" "+string(info.State))
	}
	return strings.Join(parts, ", ")
}
