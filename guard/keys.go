package guard

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/internal/jws"
)

// StaticKeys are the keys of a JSON Web Key Set that was given as text. They
// never change: a rotation wants a new one.
func StaticKeys(set []byte) (Keys, error) {
	keys, err := jws.ParseKeys(set)
	if err != nil {
		return nil, err
	}
	return staticKeys(keys), nil
}

type staticKeys map[string]ed25519.PublicKey

func (s staticKeys) Key(_ context.Context, id string) (ed25519.PublicKey, error) {
	if key, ok := s[id]; ok {
		return key, nil
	}
	return nil, ErrUnknownKey
}

// Defaults of RemoteOptions.
const (
	DefaultRefresh  = 5 * time.Minute
	DefaultMinGap   = 10 * time.Second
	DefaultMaxStale = time.Hour
	DefaultTimeout  = 5 * time.Second
)

// RemoteOptions say where keys are and how long they are believed.
type RemoteOptions struct {
	// URL of the key set: https, or http on a loopback address. Required.
	URL string
	// Client makes the requests; it should follow no redirects. Default: one of
	// its own.
	Client *http.Client
	// Refresh is the age at which the keys are asked for anew: within it a key
	// that was retired is still believed. Default DefaultRefresh.
	Refresh time.Duration
	// MinGap is the least time between two requests, whatever tokens come.
	// Default DefaultMinGap.
	MinGap time.Duration
	// MaxStale is the age beyond which keys are not believed, while Onceward
	// does not answer. Default DefaultMaxStale.
	MaxStale time.Duration
	// Timeout of one request; default DefaultTimeout.
	Timeout time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// RemoteKeys are the keys that Onceward serves now. They are asked for when the
// first token comes, when they are old, and when a token names one that is not
// known, but never more often than MinGap. It is safe for concurrent use.
type RemoteKeys struct {
	o     RemoteOptions
	known atomic.Pointer[knownKeys] // nil before the first answer
	turn  chan struct{}             // held by the one who may ask
	tried time.Time                 // of the last request; whoever has the turn
}

type knownKeys struct {
	keys map[string]ed25519.PublicKey
	at   time.Time // before they were asked for
}

var _ Keys = (*RemoteKeys)(nil)

// NewRemoteKeys makes the keys of a URL, and asks nobody yet.
func NewRemoteKeys(o RemoteOptions) (*RemoteKeys, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{{&o.Refresh, DefaultRefresh}, {&o.MinGap, DefaultMinGap}, {&o.MaxStale, DefaultMaxStale}, {&o.Timeout, DefaultTimeout}} {
		if *d.value < 0 {
			return nil, errors.New("guard: times of keys cannot be negative")
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &RemoteKeys{o: o, turn: make(chan struct{}, 1)}, nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("guard: the URL of the keys cannot be read")
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return fmt.Errorf("guard: keys at %s: want an https URL, or http on a loopback address: whoever changes the keys on their way decides whom this service believes", u.Redacted())
	}
	return nil
}

// Key implements Keys.
func (r *RemoteKeys) Key(ctx context.Context, id string) (ed25519.PublicKey, error) {
	known := r.known.Load()
	if key, ok := known.find(id); ok && r.age(known) < r.o.Refresh {
		return key, nil
	}
	certain, err := r.refresh(ctx, id)
	known = r.known.Load()
	key, ok := known.find(id)
	switch {
	case known == nil || r.age(known) >= r.o.MaxStale:
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, orAsked(err))
	case ok:
		return key, nil
	case certain:
		return nil, fmt.Errorf("%w: %.40q", ErrUnknownKey, id)
	default:
		// It may have been made since we asked.
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, orAsked(err))
	}
}

var errAskedAlready = errors.New("they were asked for a moment ago")

func orAsked(err error) error {
	if err == nil {
		return errAskedAlready
	}
	return err
}

// refresh asks for the keys where it may, and reports whether what is known now
// is what Onceward has now.
func (r *RemoteKeys) refresh(ctx context.Context, id string) (certain bool, err error) {
	arrived := r.o.Now()
	select {
	case r.turn <- struct{}{}:
	default:
		known := r.known.Load()
		if _, ok := known.find(id); ok && r.age(known) < r.o.MaxStale {
			return false, nil // good enough to go on with while somebody else asks
		}
		select {
		case r.turn <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	defer func() { <-r.turn }()
	return r.ask(ctx, arrived)
}

// ask makes the request, unless one was made just before. The caller has the
// turn.
func (r *RemoteKeys) ask(ctx context.Context, arrived time.Time) (certain bool, err error) {
	if known := r.known.Load(); known != nil && known.at.After(arrived) {
		return true, nil // while we waited
	}
	now := r.o.Now()
	if !r.tried.IsZero() && now.Sub(r.tried) < r.o.MinGap {
		return false, nil
	}
	r.tried = now
	// The answer is for everybody: it does not end with the first who asked.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
	defer cancel()
	keys, err := r.fetch(ctx)
	if err != nil {
		return false, err
	}
	r.known.Store(&knownKeys{keys: keys, at: now})
	return true, nil
}

func (r *RemoteKeys) fetch(ctx context.Context) (map[string]ed25519.PublicKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.o.URL, http.NoBody) //nolint:gosec // G704: the URL is the service's own configuration, and was checked
	if err != nil {
		return nil, err
	}
	resp, err := r.o.Client.Do(req) //nolint:gosec // G704: as above
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, jws.MaxKeysBytes+1))
	if err != nil {
		return nil, err
	}
	return jws.ParseKeys(text)
}

func (r *RemoteKeys) age(known *knownKeys) time.Duration { return r.o.Now().Sub(known.at) }

func (k *knownKeys) find(id string) (ed25519.PublicKey, bool) {
	if k == nil {
		return nil, false
	}
	key, ok := k.keys[id]
	return key, ok
}
