package signing_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/jws"
	"github.com/onceward/onceward/internal/signing"
	"github.com/onceward/onceward/ledger"
)

const issuer = "urn:onceward:test"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)

// key is one of a few fixed keys.
func key(n byte, id string, primary bool) signing.Key {
	return signing.Key{ID: id, Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)), Primary: primary}
}

func signer(t *testing.T, keys ...signing.Key) *signing.Signer {
	t.Helper()
	s, err := signing.New(signing.Options{Issuer: issuer, Keys: func() []signing.Key { return keys }, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// operation is one that succeeded.
func operation() ledger.Operation {
	return ledger.Operation{
		Tenant: "acme", ID: "0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e", Key: "order:42", ActionType: "payments.refund.create",
		ArgsHash: sha256.Sum256([]byte(`{"amount":1000}`)), State: ledger.Succeeded, Attempt: 2, Epoch: 1,
		ProviderReference: "re_1", Receipt: []byte(`{"id":"re_1",  "amount":1000}`), SettledAt: noon,
	}
}

func verifier(t *testing.T, s *signing.Signer) *guard.Verifier {
	t.Helper()
	set, err := s.PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := guard.StaticKeys(set)
	if err != nil {
		t.Fatal(err)
	}
	v, err := guard.NewVerifier(guard.VerifierOptions{Issuer: issuer, Audience: "billing", Keys: keys, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTokenIsBelievedByGuard(t *testing.T) {
	s := signer(t, key(1, "old", false), key(2, "now", true), key(3, "next", false))
	token, err := s.Mint(operation(), "billing", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got, err := verifier(t, s).Allow(t.Context(), token, "payments.refund.create")
	if err != nil {
		t.Fatal(err)
	}
	op := operation()
	want := guard.Claims{
		Issuer: issuer, Audience: "billing", OperationID: op.ID, Tenant: "acme", ActionType: op.ActionType,
		ArgumentsHash: got.ArgumentsHash, Attempt: 2, Epoch: 1, ID: op.ID + "/2",
		IssuedAt: noon.Unix(), ExpiresAt: noon.Unix() + 31, // it is half past a second
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := got.CheckArguments([]byte(`{"amount": 1e3}`)); err != nil {
		t.Errorf("its arguments: %v", err)
	}
}

func TestTokensThatAreNotMade(t *testing.T) {
	for name, test := range map[string]struct {
		signer   *signing.Signer
		change   func(*ledger.Operation)
		audience string
		life     time.Duration
		want     error
	}{
		"no keys":      {signer(t), nil, "billing", time.Minute, signing.ErrNoKey},
		"no primary":   {signer(t, key(1, "next", false)), nil, "billing", time.Minute, signing.ErrNoKey},
		"no audience":  {signer(t, key(1, "now", true)), nil, "", time.Minute, nil},
		"no life":      {signer(t, key(1, "now", true)), nil, "billing", 0, nil},
		"past life":    {signer(t, key(1, "now", true)), nil, "billing", -time.Minute, nil},
		"a long life":  {signer(t, key(1, "now", true)), nil, "billing", guard.MaxTokenLife + 1, nil},
		"no attempt":   {signer(t, key(1, "now", true)), func(op *ledger.Operation) { op.Attempt = 0 }, "billing", time.Minute, nil},
		"no operation": {signer(t, key(1, "now", true)), func(op *ledger.Operation) { op.ID = "" }, "billing", time.Minute, nil},
	} {
		op := operation()
		if test.change != nil {
			test.change(&op)
		}
		token, err := test.signer.Mint(op, test.audience, test.life)
		if err == nil || token != "" || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}
	if _, err := signing.New(signing.Options{Issuer: issuer}); err == nil {
		t.Error("a signer without keys is made")
	}
	if _, err := signing.New(signing.Options{Keys: func() []signing.Key { return nil }}); err == nil {
		t.Error("a signer without a name is made")
	}
}

// Attempts may be shorter than the seconds that tokens count in, and as long as a
// guard takes.
func TestTokensOfShortAndLongAttempts(t *testing.T) {
	s := signer(t, key(1, "now", true))
	for _, life := range []time.Duration{time.Nanosecond, 400 * time.Millisecond, guard.MaxTokenLife} {
		token, err := s.Mint(operation(), "billing", life)
		if err != nil {
			t.Errorf("%s: %v", life, err)
			continue
		}
		if _, err := verifier(t, s).Verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", life, err)
		}
	}
}

func publicKeys(t *testing.T, s *signing.Signer) map[string]ed25519.PublicKey {
	t.Helper()
	set, err := s.PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := signing.ParseKeys(set)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestSignedReceipt(t *testing.T) {
	s := signer(t, key(1, "now", true))
	text, err := s.Receipt(operation())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Receipt(operation()); err != nil || again != text {
		t.Errorf("signed twice: another text, or %v", err)
	}
	noted := operation()
	noted.UpdatedAt, noted.Revision = noon.Add(time.Hour), 9
	if later, err := s.Receipt(noted); err != nil || later != text {
		t.Errorf("after a note: another text, or %v", err)
	}
	// After a rotation the old key is public still.
	rotated := signer(t, key(1, "now", false), key(2, "new", true))
	r, err := signing.VerifyReceipt(text, issuer, publicKeys(t, rotated))
	op := operation()
	if err != nil || !bytes.Equal(r.Receipt, op.Receipt) || r.OperationID != op.ID || r.Tenant != "acme" || r.State != "succeeded" ||
		r.ProviderReference != "re_1" || r.Attempts != 2 || !r.ConfirmedAt.Equal(noon) || r.Incident {
		t.Errorf("got %+v, %v", r, err)
	}
	if strings.Contains(text, "order:42") || len(r.KeyHash) != 64 {
		t.Errorf("the key is told: %+v", r)
	}
}

func TestReceiptsThatAreNotSigned(t *testing.T) {
	s := signer(t, key(1, "now", true))
	for name, change := range map[string]func(*ledger.Operation){
		"failed":  func(op *ledger.Operation) { op.State = ledger.Failed },
		"unknown": func(op *ledger.Operation) { op.State = ledger.Unknown },
		"none":    func(op *ledger.Operation) { op.Receipt = nil },
	} {
		op := operation()
		change(&op)
		if text, err := s.Receipt(op); !errors.Is(err, signing.ErrNoReceipt) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := signer(t).Receipt(operation()); !errors.Is(err, signing.ErrNoKey) {
		t.Errorf("no keys: %v", err)
	}
}

func TestReceiptsThatAreRefused(t *testing.T) {
	s := signer(t, key(1, "now", true))
	good, err := s.Receipt(operation())
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.Mint(operation(), "billing", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r, err := signing.VerifyReceipt(good, "", publicKeys(t, s))
	if err != nil {
		t.Fatal(err)
	}
	r.Receipt = []byte(`{"id":"re_2"}`)
	payload, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	inconsistent, err := jws.Sign(key(1, "", true).Private, "now", signing.ReceiptType, payload)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for want, test := range map[string]struct {
		text, issuer string
		keys         map[string]ed25519.PublicKey
	}{
		"no signed receipt":                {"hello", "", publicKeys(t, s)},
		"no signed receipt ":               {token, "", publicKeys(t, s)},
		"do not have key":                  {good, "", publicKeys(t, signer(t, key(1, "other", true)))},
		"signature does not match":         {good, "", publicKeys(t, signer(t, key(2, "now", true)))},
		"signature does not match: it":     {parts[0] + "." + parts[1][:20] + "A" + parts[1][21:] + "." + parts[2], "", publicKeys(t, s)},
		"not from urn:onceward:other":      {good, "urn:onceward:other", publicKeys(t, s)},
		"not that of the receipt":          {inconsistent, "", publicKeys(t, s)},
		"they do not have key \"now\" ":    {good, "", nil},
		"not a receipt that one of these ": {"", "", publicKeys(t, s)},
	} {
		if _, err := signing.VerifyReceipt(test.text, test.issuer, test.keys); !errors.Is(err, signing.ErrNotOurs) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestKeysEndpoint(t *testing.T) {
	s := signer(t, key(1, "old", false), key(2, "now", true), key(3, "next", false))
	h := s.Handler(slog.New(slog.DiscardHandler))
	for _, test := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, signing.KeysPath, 200}, {http.MethodHead, signing.KeysPath, 200},
		{http.MethodPost, signing.KeysPath, 405}, {http.MethodGet, "/", 404}, {http.MethodGet, signing.KeysPath + "/x", 404},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, http.NoBody))
		if w.Code != test.code {
			t.Errorf("%s %s: %d", test.method, test.path, w.Code)
		}
		if test.method != http.MethodGet || test.code != 200 {
			continue
		}
		keys, err := signing.ParseKeys(w.Body.Bytes())
		if err != nil || len(keys) != 3 || !strings.Contains(w.Header().Get("Cache-Control"), "max-age=300") || strings.Contains(w.Body.String(), `"d"`) {
			t.Errorf("got %s, %v, %v", w.Body, w.Header(), err)
		}
	}
	w := httptest.NewRecorder()
	signer(t).Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, signing.KeysPath, http.NoBody))
	if w.Code != 200 || w.Body.String() != `{"keys":[]}` {
		t.Errorf("no keys: %d %s", w.Code, w.Body)
	}
}
