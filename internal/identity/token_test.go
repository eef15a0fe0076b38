package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	"github.com/onceward/onceward/server"
)

func bearer(token string) server.Credential { return server.Credential{Token: token} }

// wantRefused fails the test unless err refuses a credential for the reason.
func wantRefused(t testing.TB, err error, why string) {
	t.Helper()
	var refused *server.CredentialError
	if !errors.As(err, &refused) || !errors.Is(err, server.ErrBadCredential) || !strings.Contains(refused.Why, why) {
		t.Errorf("got %v, want it refused: %s", err, why)
	}
}

func TestTokensOfEachAlgorithm(t *testing.T) {
	t.Parallel()
	signers := []signer{ed(t, "ed"), ec(t, "ec"), {"rs", jose.RS256, rsaKey()}, {"ps", jose.PS256, rsaKey()}}
	p := newProvider(t, signers...)
	a := authenticator(t, newStore(), nil, config(t, p, nil))
	for _, s := range signers {
		got, err := a.Authenticate(t.Context(), bearer(s.token(t, standard(p))))
		if err != nil || got.Tenant != "acme" || got.Actor != "corp:planner-7" || !slices.Equal(got.Roles, []policy.Role{policy.Agent}) {
			t.Errorf("%s: %+v, %v", s.algorithm, got, err)
		}
	}
	if n := p.reads.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
}

// Each token differs from a good one in one thing.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	key := ed(t, "key-1")
	weak := signer{"shared", jose.HS256, []byte("0123456789abcdef0123456789abcdef")}
	p := newProvider(t, key, weak) // a provider that publishes a shared secret, too
	elsewhere := newProvider(t, key)
	a := authenticator(t, newStore(), nil, config(t, p, func(c *issuerConfig) { c.MaxLifetime = 2 * time.Hour; c.TokenType = "JWT" }))
	good := func(changes ...any) map[string]any { return with(standard(p), changes...) }
	payload, err := json.Marshal(good())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), bearer(key.sign(t, payload))); err != nil {
		t.Fatalf("the token that the others differ from: %v", err)
	}
	parts := strings.Split(key.sign(t, payload), ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	public, err := json.Marshal(key.public())
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) int64 { return start.Add(time.Minute + d).Unix() } // the clock is there
	for name, test := range map[string]struct {
		token, why string
	}{
		"alg none":                        {encode(`{"alg":"none","typ":"JWT"}`) + "." + parts[1] + ".", "algorithm"},
		"alg none, signature kept":        {encode(`{"alg":"none","typ":"JWT","kid":"key-1"}`) + "." + parts[1] + "." + parts[2], "algorithm"},
		"HMAC with the public key":        {signer{"key-1", jose.HS256, public}.sign(t, payload), "algorithm"},
		"HMAC with a published secret":    {weak.sign(t, payload), "algorithm"},
		"no signature":                    {parts[0] + "." + parts[1] + ".", "signature"},
		"another payload":                 {parts[0] + "." + encode(strings.Replace(string(payload), "acme", "globex", 1)) + "." + parts[2], "signature"},
		"another's key under the same id": {ed(t, "key-1").sign(t, payload), "signature"},
		"unknown key":                     {ed(t, "key-2").sign(t, payload), "no key with the id"},
		"a key that the token brings":     {ed(t, "key-1").sign(t, payload, func(o *jose.SignerOptions) { o.EmbedJWK = true }), ""},
		"a place where the key is":        {ed(t, "key-1").sign(t, payload, func(o *jose.SignerOptions) { o.WithHeader("jku", elsewhere.URL+"/keys") }), "signature"},
		"an unknown critical header":      {key.sign(t, payload, func(o *jose.SignerOptions) { o.WithHeader("crit", []string{"x"}).WithHeader("x", 1) }), "signature"},
		"another type":                    {key.sign(t, payload, func(o *jose.SignerOptions) { o.WithType("logout+jwt") }), "type"},
		"another algorithm's name":        {encode(`{"alg":"ES256","typ":"JWT","kid":"key-1"}`) + "." + parts[1] + "." + parts[2], "signature"},
		"expired":                         {key.token(t, good("exp", at(-30*time.Second))), "expired"},
		"expires never":                   {key.token(t, good("exp", nil)), "when it expires"},
		"expires as a text":               {key.token(t, good("exp", "2030-01-01")), "when it expires"},
		"expires in an endless time":      {key.token(t, good("exp", 1e300)), "when it expires"},
		"expired before time began":       {key.token(t, good("exp", -1)), "when it expires"},
		"issued in the future":            {key.token(t, good("iat", at(31*time.Second))), "future"},
		"issued after it began":           {key.token(t, good("iat", at(31*time.Second), "nbf", start.Unix())), "future"},
		"begins in the future":            {key.token(t, good("nbf", at(31*time.Second))), "future"},
		"begins with a text":              {key.token(t, good("nbf", "now")), "when it begins"},
		"issued nobody knows when":        {key.token(t, good("iat", nil)), "when it was issued"},
		"lives too long":                  {key.token(t, good("exp", start.Add(2*time.Hour+time.Second).Unix())), "lives longer"},
		"no audience":                     {key.token(t, good("aud", nil)), "another audience"},
		"another audience":                {key.token(t, good("aud", "onceward2")), "another audience"},
		"other audiences":                 {key.token(t, good("aud", []string{"billing", "ONCEWARD"})), "another audience"},
		"odd audiences":                   {key.token(t, good("aud", []any{"onceward", 7})), "another audience"},
		"another issuer":                  {key.token(t, good("iss", elsewhere.URL)), "not configured"},
		"issuer with a slash":             {key.token(t, good("iss", p.URL+"/")), "not configured"},
		"no issuer":                       {key.token(t, good("iss", nil)), "names no issuer"},
		"a tenant of others":              {key.token(t, good("org", "initech")), "does not speak for the tenant"},
		"no tenant":                       {key.token(t, good("org", nil)), "no text at the claim org"},
		"two tenants":                     {key.token(t, good("org", []string{"acme", "globex"})), "no text at the claim org"},
		"no actor":                        {key.token(t, good("sub", nil)), "no text at the claim sub"},
		"an actor with a line break":      {key.token(t, good("sub", "a\nb")), "cannot be seen"},
		"a long actor":                    {key.token(t, good("sub", strings.Repeat("a", 255))), "longer than 255"},
		"roles that are not for one":      {key.token(t, good("groups", []string{"payment-agents", "risk"})), "agent and reviewer"},
		"a name twice":                    {key.sign(t, []byte(strings.Replace(string(payload), `"org":"acme"`, `"org":"globex","org":"acme"`, 1))), "malformed"},
		"no JSON":                         {key.sign(t, []byte("hello")), "malformed"},
		"null":                            {key.sign(t, []byte("null")), "malformed"},
		"a list":                          {key.sign(t, []byte("[]")), "malformed"},
		"too large":                       {key.token(t, good("padding", strings.Repeat("x", maxTokenBytes))), "larger than"},
		"no token":                        {"hello", "neither an API key nor a token"},
		"dots":                            {"..", "neither"},
		"encrypted":                       {"a.b.c.d.e", "neither"},
		"more after it":                   {key.sign(t, payload) + "\n", "neither"},
		"JSON form of a token":            {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "neither"},
		"an API key that does not exist":  {"ow_acme.0000000000000000.0000000000000000000000000000000v", "no such API key"},
	} {
		got, err := a.Authenticate(t.Context(), bearer(test.token))
		if got.Tenant != "" || len(got.Roles) != 0 {
			t.Errorf("%s: is %+v", name, got)
		}
		wantRefused(t, err, test.why)
		if t.Failed() {
			t.Fatalf("in %s", name)
		}
		if len(test.token) > 20 && strings.Contains(err.Error(), test.token[:20]) {
			t.Errorf("%s: the reason repeats the token: %v", name, err)
		}
	}
}

// A key that was published for one algorithm is not good for another one.
func TestAKeyIsForItsAlgorithm(t *testing.T) {
	t.Parallel()
	signing := func(a jose.SignatureAlgorithm) signer { return signer{"rsa", a, rsaKey()} }
	p := newProvider(t, signing(jose.RS256))
	p.set(func() { p.keys[0].Algorithm = string(jose.RS256) })
	a := authenticator(t, newStore(), nil, config(t, p, nil))
	if _, err := a.Authenticate(t.Context(), bearer(signing(jose.RS256).token(t, standard(p)))); err != nil {
		t.Error(err)
	}
	_, err := a.Authenticate(t.Context(), bearer(signing(jose.PS256).token(t, standard(p))))
	wantRefused(t, err, "signature")
}

func TestLeewayIsForClocksThatDiffer(t *testing.T) {
	t.Parallel()
	key := ed(t, "k")
	p := newProvider(t, key)
	a := authenticator(t, newStore(), nil, config(t, p, nil))
	now := start.Add(time.Minute)
	for name, c := range map[string]map[string]any{
		"just expired":          with(standard(p), "exp", now.Add(-29*time.Second).Unix()),
		"issued a bit from now": with(standard(p), "iat", now.Add(29*time.Second).Unix()),
		"fractions":             with(standard(p), "iat", float64(start.Unix())+0.5),
		"one of the audiences":  with(standard(p), "aud", []string{"x", "onceward-staging"}),
	} {
		if _, err := a.Authenticate(t.Context(), bearer(key.token(t, c))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// verify does not rely on who chose it by the same claim.
func TestATokenNamesTheIssuerThatChecksIt(t *testing.T) {
	t.Parallel()
	key := ed(t, "k")
	p := newProvider(t, key)
	i := newIssuer(config(t, p, nil), quiet(t))
	_, err := i.verify(t.Context(), key.token(t, with(standard(p), "iss", "https://other.example.com")), start)
	wantRefused(t, err, "another issuer")
}

// Two issuers in one file: neither can speak for the other's tenants, or with
// the other's name.
func TestAnIssuerSpeaksForItsOwnTenants(t *testing.T) {
	t.Parallel()
	ours, theirs := ed(t, "k"), ed(t, "k")
	p, q := newProvider(t, ours), newProvider(t, theirs)
	only := func(tenant string) func(*issuerConfig) {
		return func(c *issuerConfig) { c.Name = tenant; c.Tenants = []string{tenant} }
	}
	a := authenticator(t, newStore(), nil, config(t, p, only("acme")), config(t, q, only("globex")))
	if got, err := a.Authenticate(t.Context(), bearer(theirs.token(t, with(standard(q), "org", "globex")))); err != nil || got.Tenant != "globex" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := a.Authenticate(t.Context(), bearer(theirs.token(t, standard(q))))
	wantRefused(t, err, "does not speak for")
	_, err = a.Authenticate(t.Context(), bearer(theirs.token(t, standard(p))))
	wantRefused(t, err, "signature")
}

func TestClaimsAreMapped(t *testing.T) {
	t.Parallel()
	key := ed(t, "k")
	p := newProvider(t, key)
	for name, test := range map[string]struct {
		change func(*issuerConfig)
		claims []any
		want   policy.Principal
		why    string
	}{
		"fixed": {
			change: func(c *issuerConfig) {
				c.Tenant, c.Actor, c.Roles = source{Value: "acme"}, source{Value: "batch"}, roleSource{Values: []policy.Role{policy.Agent}}
			},
			claims: []any{"org", nil, "sub", nil, "groups", nil},
			want:   policy.Principal{Tenant: "acme", Actor: "batch", Roles: []policy.Role{policy.Agent}},
		},
		"a claim inside of others, and one with a URL's name": {
			change: func(c *issuerConfig) {
				c.Tenant.Claim, c.Roles.Claim = claimPath{"https://acme.com/org"}, claimPath{"realm", "roles"}
			},
			claims: []any{"https://acme.com/org", "globex", "realm", map[string]any{"roles": []string{"audit", "risk", "audit"}}},
			want:   policy.Principal{Tenant: "globex", Actor: "corp:planner-7", Roles: []policy.Role{policy.Auditor, policy.Reviewer}},
		},
		"a path that ends early": {
			change: func(c *issuerConfig) { c.Tenant.Claim = claimPath{"sub", "org"} },
			why:    "no text at the claim sub → org",
		},
		"mapped tenants": {
			change: func(c *issuerConfig) { c.Tenant.Map = map[string]string{"T-1": "globex"} },
			claims: []any{"org", "T-1"},
			want:   policy.Principal{Tenant: "globex", Actor: "corp:planner-7", Roles: []policy.Role{policy.Agent}},
		},
		"a tenant that is not in the map, though it is the issuer's": {
			change: func(c *issuerConfig) { c.Tenant.Map = map[string]string{"T-1": "globex"} },
			why:    "not in the map",
		},
		"scopes": {
			change: func(c *issuerConfig) { c.Roles.Claim = claimPath{"scope"} },
			claims: []any{"scope", "openid payment-agents"},
			want:   policy.Principal{Tenant: "acme", Actor: "corp:planner-7", Roles: []policy.Role{policy.Agent}},
		},
		"no role": {
			claims: []any{"groups", []string{"everybody", "admin"}}, // what is not in the map is no role
			want:   policy.Principal{Tenant: "acme", Actor: "corp:planner-7"},
		},
		"a tenant that the ledger does not have": {
			change: func(c *issuerConfig) { c.Tenants = []string{"initech"} },
			claims: []any{"org", "initech"},
			why:    `no tenant "initech"`,
		},
	} {
		a := authenticator(t, newStore(), nil, config(t, p, test.change))
		got, err := a.Authenticate(t.Context(), bearer(key.token(t, with(standard(p), test.claims...))))
		if test.why != "" {
			wantRefused(t, err, test.why)
			continue
		}
		if err != nil || got.Tenant != test.want.Tenant || got.Actor != test.want.Actor || !slices.Equal(got.Roles, test.want.Roles) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

func TestTokensForOneUse(t *testing.T) {
	t.Parallel()
	key := ed(t, "k")
	p := newProvider(t, key)
	s := newStore()
	c := config(t, p, func(c *issuerConfig) { c.OneTime = true })
	one, other := authenticator(t, s, nil, c), authenticator(t, s, nil, c) // two replicas
	token := key.token(t, standard(p))
	if _, err := one.Authenticate(t.Context(), bearer(token)); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Authenticator{one, other} {
		_, err := a.Authenticate(t.Context(), bearer(token))
		wantRefused(t, err, "used before")
		// Signed anew, it is the same one.
		_, err = a.Authenticate(t.Context(), bearer(key.token(t, with(standard(p), "nonce", "n"))))
		wantRefused(t, err, "used before")
		_, err = a.Authenticate(t.Context(), bearer(key.token(t, with(standard(p), "jti", nil))))
		wantRefused(t, err, "no jti")
	}
	if _, err := other.Authenticate(t.Context(), bearer(key.token(t, with(standard(p), "jti", "second")))); err != nil {
		t.Errorf("another one: %v", err)
	}
	// In the middle of the call that it began it is still good, as long as its
	// tenant is.
	again := server.Credential{Token: token, Again: true}
	if _, err := other.Authenticate(t.Context(), again); err != nil {
		t.Errorf("the same call: %v", err)
	}
	for until := range maps.Values(s.used) {
		if want := start.Add(time.Hour); until.Before(want.Add(defaultLeeway)) {
			t.Errorf("remembered until %s, but good until %s", until, want)
		}
	}
	// A token that does not let its bearer in is not used up.
	third := key.token(t, with(standard(p), "jti", "third"))
	s.set(func() { s.err = ledger.ErrUnavailable })
	if _, err := authenticator(t, s, nil, c).Authenticate(t.Context(), bearer(third)); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("while the ledger is away: %v", err)
	}
	s.set(func() { s.err = nil })
	if _, err := one.Authenticate(t.Context(), bearer(third)); err != nil {
		t.Errorf("and back: %v", err)
	}
}

func TestMoments(t *testing.T) {
	for _, v := range []any{nil, "1", -1.0, math.Inf(1), math.NaN(), 1e18, true, map[string]any{}} {
		if m, ok := moment(v); ok {
			t.Errorf("%v is %s", v, m)
		}
	}
	if m, ok := moment(1.5); !ok || m.UnixMilli() != 1500 {
		t.Errorf("1.5 is %s, %v", m, ok)
	}
}
