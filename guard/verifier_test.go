package guard_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/guard"
	"github.com/onceward/onceward/internal/jws"
)

func TestGoodToken(t *testing.T) {
	want := claims(t)
	got, err := verifier(t, nil).Allow(t.Context(), sign(t, want), "a.b", action)
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestHostileTokens: none of these is believed, and nobody learns why.
func TestHostileTokens(t *testing.T) {
	changed := func(change func(*guard.Claims)) string {
		c := claims(t)
		change(&c)
		return sign(t, c)
	}
	good := sign(t, claims(t))
	parts := strings.Split(good, ".")
	payload, err := json.Marshal(claims(t))
	if err != nil {
		t.Fatal(err)
	}
	signed := func(k byte, id, typ string) string {
		token, err := jws.Sign(key(k), id, typ, payload)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	encode := base64.RawURLEncoding.EncodeToString
	hmac, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(public(key(1)))},
		(&jose.SignerOptions{}).WithType(guard.TokenType).WithHeader("kid", "one"))
	if err != nil {
		t.Fatal(err)
	}
	byPublicKey, err := hmac.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	confused, err := byPublicKey.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no token at all":         "Bearer",
		"another issuer":          changed(func(c *guard.Claims) { c.Issuer = "urn:onceward:other" }),
		"no issuer":               changed(func(c *guard.Claims) { c.Issuer = "" }),
		"another audience":        changed(func(c *guard.Claims) { c.Audience = "shipping" }),
		"no audience":             changed(func(c *guard.Claims) { c.Audience = "" }),
		"several audiences":       sign(t, map[string]any{"iss": issuer, "aud": []string{audience}, "sub": "op-1"}),
		"expired":                 changed(func(c *guard.Claims) { c.ExpiresAt = noon.Add(-guard.DefaultLeeway).Unix() }),
		"no expiry":               changed(func(c *guard.Claims) { c.ExpiresAt = 0 }),
		"from the future":         changed(func(c *guard.Claims) { c.IssuedAt = noon.Add(guard.DefaultLeeway + time.Second).Unix() }),
		"no time of issue":        changed(func(c *guard.Claims) { c.IssuedAt = 0 }),
		"expires before issue":    changed(func(c *guard.Claims) { c.ExpiresAt = c.IssuedAt - 1 }),
		"lives for ever":          changed(func(c *guard.Claims) { c.ExpiresAt = noon.Add(24 * time.Hour).Unix() }),
		"overflowing life":        changed(func(c *guard.Claims) { c.IssuedAt = 1; c.ExpiresAt = 1 << 62 }),
		"no operation":            changed(func(c *guard.Claims) { c.OperationID = "" }),
		"no tenant":               changed(func(c *guard.Claims) { c.Tenant = "" }),
		"no action":               changed(func(c *guard.Claims) { c.ActionType = "" }),
		"no token id":             changed(func(c *guard.Claims) { c.ID = "" }),
		"no arguments":            changed(func(c *guard.Claims) { c.ArgumentsHash = "" }),
		"arguments of half a sum": changed(func(c *guard.Claims) { c.ArgumentsHash = c.ArgumentsHash[:32] }),
		"no attempt":              changed(func(c *guard.Claims) { c.Attempt = 0 }),
		"negative epoch":          changed(func(c *guard.Claims) { c.Epoch = -1 }),
		"claims are a list":       sign(t, []string{"op-1"}),
		"alg none":                encode([]byte(`{"alg":"none","kid":"one","typ":"`+guard.TokenType+`"}`)) + "." + parts[1] + ".",
		"alg none with signature": encode([]byte(`{"alg":"none","kid":"one","typ":"`+guard.TokenType+`"}`)) + "." + parts[1] + "." + parts[2],
		"HMAC by the public key":  confused,
		"another key":             signed(2, "one", guard.TokenType),
		"unknown key":             signed(2, "two", guard.TokenType),
		"a receipt":               signed(1, "one", "onceward-receipt+jwt"),
		"other claims":            parts[0] + "." + encode([]byte(strings.Replace(string(payload), "acme", "evil", 1))) + "." + parts[2],
		"no signature":            parts[0] + "." + parts[1] + ".",
		"huge":                    good + strings.Repeat("A", 10_000),
		"twice":                   good + " " + good,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verifier(t, nil).Verify(t.Context(), token)
			var refused *guard.RefusedError
			if !errors.As(err, &refused) || refused.Reason != guard.ReasonTokenInvalid || refused.Err == nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	good := sign(t, claims(t))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx   context.Context
		keys  guard.Keys
		token string
		types []string
		want  guard.Reason
	}{
		"no token":           {t.Context(), nil, "", []string{action}, guard.ReasonTokenRequired},
		"another action":     {t.Context(), nil, good, []string{"payments.refund.cancel"}, guard.ReasonForbidden},
		"start of an action": {t.Context(), nil, good, []string{"payments.refund"}, guard.ReasonForbidden},
		"no action":          {t.Context(), nil, good, nil, guard.ReasonForbidden},
		"keys are away":      {t.Context(), failingKeys{}, good, []string{action}, guard.ReasonUnavailable},
		"caller left":        {ended, failingKeys{}, good, []string{action}, guard.ReasonUnavailable},
	} {
		if _, err := verifier(t, test.keys).Allow(test.ctx, test.token, test.types...); guard.ReasonOf(err) != test.want || err == nil {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestLeeway(t *testing.T) {
	at := func(move time.Duration) error {
		keys, err := guard.StaticKeys(set(t, one()))
		if err != nil {
			t.Fatal(err)
		}
		v, err := guard.NewVerifier(guard.VerifierOptions{
			Issuer: issuer, Audience: audience, Keys: keys, Leeway: 2 * time.Second, Now: func() time.Time { return noon.Add(move) },
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Verify(t.Context(), sign(t, claims(t)))
		return err
	}
	for move, believed := range map[time.Duration]bool{
		-3 * time.Second: false, -2 * time.Second: true, 0: true, 31*time.Second + 999*time.Millisecond: true, 32 * time.Second: false,
	} {
		if err := at(move); (err == nil) != believed {
			t.Errorf("%s: %v", move, err)
		}
	}
}

func TestVerifierThatWouldBelieveAnything(t *testing.T) {
	keys, err := guard.StaticKeys(set(t, one()))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]guard.VerifierOptions{
		"no issuer":       {Audience: audience, Keys: keys},
		"no audience":     {Issuer: issuer, Keys: keys},
		"no keys":         {Issuer: issuer, Audience: audience},
		"negative leeway": {Issuer: issuer, Audience: audience, Keys: keys, Leeway: -1},
	} {
		if _, err := guard.NewVerifier(o); err == nil {
			t.Errorf("%s: made", name)
		}
	}
	if _, err := guard.StaticKeys([]byte(`{"keys":[]}`)); err == nil {
		t.Error("no keys at all are accepted")
	}
}

func TestCheckArguments(t *testing.T) {
	c := claims(t)
	c.ArgumentsHash = hashOf(t, `{"amount":1000,"note":"hello"}`, "note")
	for name, test := range map[string]struct {
		arguments string
		advisory  []string
		ok        bool
	}{
		"the same":            {`{"amount":1000}`, nil, true},
		"another spelling":    {"{ \"amount\" : 1e3 }", nil, true},
		"another note":        {`{"note":"hi","amount":1000}`, []string{"note"}, true},
		"a note that counts":  {`{"note":"hello","amount":1000}`, nil, false},
		"another amount":      {`{"amount":1001}`, nil, false},
		"one more":            {`{"amount":1000,"to":"me"}`, []string{"note"}, false},
		"one twice":           {`{"amount":1000,"amount":1000}`, nil, false},
		"an amount as a text": {`{"amount":"1000"}`, nil, false},
		"no object":           {`1000`, nil, false},
	} {
		err := c.CheckArguments([]byte(test.arguments), test.advisory...)
		if (err == nil) != test.ok || err != nil && guard.ReasonOf(err) != guard.ReasonForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}
