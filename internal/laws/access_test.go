package laws

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/apptest"
	"github.com/onceward/onceward/internal/identity"
)

// Every RPC of the contract is in the table, and everything in the table is an
// RPC; and what is served is what the tests think is served.
func TestEveryCallIsInTheTable(t *testing.T) {
	t.Parallel()
	var table []string
	for _, c := range calls() {
		table = append(table, c.method)
	}
	slices.Sort(table)
	if contract := slices.Sorted(maps.Keys(methods())); !slices.Equal(contract, table) {
		t.Errorf("the contract has the calls\n%s\nthe table has\n%s", strings.Join(contract, "\n"), strings.Join(table, "\n"))
	}
	w := apptest.New(t, apptest.Options{})
	names := services(t, w.Start(t, nil))
	for _, c := range calls() {
		if slices.Contains(names, c.service()) == slices.Contains(notServedYet(), c.service()) {
			t.Errorf("%s is served: %v. See notServedYet", c.service(), slices.Contains(names, c.service()))
		}
	}
}

// Every RPC, with every role, with none and without a credential, about one's
// own tenant and another: who may gets an answer about his own and nothing of
// another's, and who may not learns nothing of either.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	w := apptest.New(t, apptest.Options{Adapters: []actions.Adapter{newStub("test.approved", applied).approved()}})
	tokens := newIssuer(t)
	r := w.Start(t, func(c *app.Config) { c.Identity = tokens.file(t, c.Log) })
	foreign := &matrixTenant{w: w, r: r, name: "foreign-tenant", agent: w.Key(t, "foreign-tenant", "foreign-planner", "agent")}
	own := &matrixTenant{w: w, r: r, name: "acme", agent: w.Agent}
	theirs := foreign.ask(t)
	nobodys := subject{"01890000-0000-7000-8000-000000000000", "no-such-key", "01890000-0000-7000-8000-000000000000"}
	// What must not be in an answer to somebody of acme.
	secrets := []string{"foreign", theirs.operation, theirs.review, theirs.key}

	principals := map[string]struct {
		roles      []string
		credential string
	}{
		"no role": {nil, tokens.token(t, "acme", "somebody")},
	}
	for role := range strings.FieldsSeq(everyone) {
		principals[role] = struct {
			roles      []string
			credential string
		}{[]string{role}, w.Key(t, "acme", "one-"+role, role)}
		principals[role+" by token"] = struct {
			roles      []string
			credential string
		}{[]string{role}, tokens.token(t, "acme", "token-"+role, role)}
	}
	for _, c := range served(t, r) {
		t.Run(c.method, func(t *testing.T) {
			for _, on := range []subject{own.ask(t), theirs, nobodys} {
				answer, err := c.invoke(t.Context(), r, on)
				apptest.WantReason(t, err, codes.Unauthenticated, "UNAUTHENTICATED")
				wantNothingOf(t, "no credential", secrets, answer, err)
			}
			for name, p := range principals {
				ctx := apptest.As(t.Context(), p.credential)
				about := func(on subject) error {
					t.Helper()
					answer, err := c.invoke(ctx, r, on)
					wantNothingOf(t, name, secrets, answer, err)
					return err
				}
				ofOwn, ofTheirs, ofNobodys := about(own.ask(t)), about(theirs), about(nobodys)
				if !proto.Equal(status.Convert(ofTheirs).Proto(), status.Convert(ofNobodys).Proto()) {
					t.Errorf("%s: tells another's from nobody's: %v, %v", name, ofTheirs, ofNobodys)
				}
				switch {
				case !c.may(p.roles...):
					for _, err := range []error{ofOwn, ofTheirs} {
						wantPlain(t, apptest.WantReason(t, err, codes.PermissionDenied, "ROLE_REQUIRED").Err())
					}
				case status.Code(ofOwn) != c.own:
					t.Errorf("%s, about its own: %v, want %s", name, ofOwn, c.own)
				case c.unknown == "":
					if ofTheirs != nil {
						t.Errorf("%s: %v", name, ofTheirs)
					}
				default:
					apptest.WantReason(t, ofTheirs, codes.NotFound, c.unknown)
				}
			}
		})
	}
	// Nobody of acme has changed anything there.
	now, err := w.Owner().Get(t.Context(), foreign.name, theirs.operation)
	if err != nil || now.State != "needs_review" || now.Revision != foreign.revision {
		t.Errorf("the foreign tenant's operation is %s, revision %d, %v; it was needs_review, %d", now.State, now.Revision, err, foreign.revision)
	}
}

// wantNothingOf fails the test when an answer or an error holds one of the texts.
func wantNothingOf(t testing.TB, who string, secrets []string, answer proto.Message, err error) {
	t.Helper()
	text := prototext.Format(status.Convert(err).Proto())
	if err == nil {
		text = prototext.Format(answer)
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s is shown %q: %s", who, secret, text)
		}
	}
}

// matrixTenant is a tenant with operations that wait for a reviewer.
type matrixTenant struct {
	w           *apptest.World
	r           *apptest.Replica
	name, agent string
	asked       int
	revision    int64 // of the last operation
}

// ask records an operation that waits for a reviewer.
func (m *matrixTenant) ask(t testing.TB) subject {
	t.Helper()
	m.asked++
	key := fmt.Sprintf("%s-key-%d", m.name, m.asked)
	resp, err := m.r.Actions.RequestAction(apptest.As(t.Context(), m.agent), stubRequest("test.approved", key))
	if err != nil {
		t.Fatal(err)
	}
	op, err := m.w.Owner().Get(t.Context(), m.name, resp.GetOperation().GetId())
	if err != nil {
		t.Fatal(err)
	}
	m.revision = op.Revision
	return subject{op.ID, key, resp.GetOperation().GetReview().GetId()}
}

// tokenIssuer is an OIDC provider with one key.
type tokenIssuer struct {
	*httptest.Server
	key ed25519.PrivateKey
}

func newIssuer(t testing.TB) *tokenIssuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &tokenIssuer{key: private}
	mux := http.NewServeMux()
	publish := func(path string, what func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(what()) })
	}
	publish("/.well-known/openid-configuration", func() any { return map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"} })
	publish("/keys", func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "k", Key: public, Use: "sig"}}}
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// file is an identity file that takes this issuer's tokens for acme, and the
// certificates of an agent.
func (i *tokenIssuer) file(t testing.TB, log *slog.Logger) *identity.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "identity.yaml")
	text := fmt.Sprintf(`issuers:
  - name: corp
    issuer: %s
    audiences: [onceward]
    tenants: [acme]
    tenant: {claim: org}
    actor: {claim: sub}
    roles: {claim: groups, map: {agent: agent, reviewer: reviewer, auditor: auditor, admin: admin}}
certificates:
  - {uri: "spiffe://acme.example/agents/*", tenant: acme, roles: [agent]}
`, i.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := identity.Open(identity.FileOptions{Path: path, Log: log, Interval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (i *tokenIssuer) token(t testing.TB, tenant, actor string, roles ...string) string {
	t.Helper()
	return i.sign(t, map[string]any{
		"iss": i.URL, "aud": "onceward", "org": tenant, "sub": actor, "groups": append([]string{"staff"}, roles...),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
}

func (i *tokenIssuer) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
