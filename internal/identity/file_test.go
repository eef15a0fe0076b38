package identity

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/policy"
)

// watching runs a watch until the test ends.
func watching(t testing.TB, watch func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { watch(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

// eventually polls until done.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

const goodFile = `api_keys: false
issuers:
  - name: corp
    issuer: https://login.example.com
    audiences: [onceward]
    tenants: [acme, globex]
    tenant:
      claim: org
      map: {T-1: acme}
    actor: {claim: sub, prefix: "corp:"}
    roles:
      claim: [realm_access, roles]
      map: {payment-agents: agent}
certificates:
  - uri: spiffe://acme.example/agents/*
    tenant: acme
    roles: [agent]
`

// recorded is a log, and what is in it.
func recorded() (log *slog.Logger, text func() string) {
	var mu sync.Mutex
	var buffer strings.Builder
	write := writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return buffer.Write(p)
	})
	return slog.New(slog.NewTextHandler(write, nil)), func() string {
		mu.Lock()
		defer mu.Unlock()
		return buffer.String()
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func matches(t testing.TB, text, pattern string) bool {
	t.Helper()
	found, err := regexp.MatchString(pattern, text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFilesAreReadStrictly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "identity.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(goodFile)
	doc, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c := doc.Issuers[0]; *c.Leeway != defaultLeeway || c.MaxLifetime != defaultMaxLifetime || len(c.Algorithms) != 4 ||
		c.Roles.Claim.String() != "realm_access → roles" || c.Roles.Map["payment-agents"] != policy.Agent || *doc.APIKeys {
		t.Errorf("read %+v", c)
	}
	for name, test := range map[string]struct{ from, to, want string }{
		"unknown field":               {"    audiences", "    audience", "5:5: .*unknown field"},
		"unknown field inside":        {"claim: sub, prefix", "claim: sub, suffix", "10:25: .*unknown field"},
		"a name twice":                {"  - name: corp", "  - name: corp\n    name: corp2", "4:5: .*already defined"},
		"no YAML":                     {"issuers:", "issuers: [", ""},
		"another type":                {"audiences: [onceward]", "audiences: onceward", "5:16: "},
		"an alias":                    {"[acme, globex]", "&t [acme, globex]", "6:14: .*anchors"},
		"two documents":               {"certificates:", "---\ncertificates:", "one document"},
		"issuer without TLS":          {"https://login", "http://login", "4:13: issuers\\[0\\].issuer: want https"},
		"no audience":                 {"audiences: [onceward]", "audiences: []", "issuers\\[0\\].audiences: want at least one"},
		"HS256":                       {"    tenants:", "    algorithms: [RS256, HS256]\n    tenants:", "6:25: issuers\\[0\\].algorithms\\[1\\]: \"HS256\" is not allowed"},
		"none":                        {"    tenants:", "    algorithms: [none]\n    tenants:", "\"none\" is not allowed"},
		"no algorithm":                {"    tenants:", "    algorithms: []\n    tenants:", "want at least one, or leave it out"},
		"leeway":                      {"    tenants:", "    leeway: 1h\n    tenants:", "6:13: issuers\\[0\\].leeway"},
		"lifetime":                    {"    tenants:", "    max_lifetime: -1h\n    tenants:", "max_lifetime"},
		"no tenants":                  {"[acme, globex]", "[]", "want the tenants"},
		"a tenant that cannot be":     {"[acme, globex]", "[acme, '*']", "6:21: issuers\\[0\\].tenants\\[1\\]: want the name of a tenant"},
		"mapped to another's":         {"T-1: acme", "T-1: initech", "not among the issuer's tenants"},
		"fixed to another's":          {"      claim: org\n      map: {T-1: acme}", "      value: initech", "not among the issuer's tenants"},
		"value and claim":             {"claim: sub, prefix", "claim: sub, value: x, prefix", "10:13: issuers\\[0\\].actor: want either value or claim"},
		"neither":                     {"    actor: {claim: sub, prefix: \"corp:\"}\n", "", "3:5: issuers\\[0\\].actor: want either"},
		"roles without a map":         {"      map: {payment-agents: agent}\n", "", "issuers\\[0\\].roles.map"},
		"a role that is none":         {"payment-agents: agent", "payment-agents: owner", "\"owner\" is no role"},
		"roles that are not for one":  {"roles: [agent]", "roles: [agent, admin]", "certificates\\[0\\].roles: the roles agent and admin"},
		"uri and subject":             {"    tenant: acme\n", "    tenant: acme\n    subject: CN=x\n", "15:5: certificates\\[0\\]: want either"},
		"a star in the middle":        {"agents/*", "*/x", "certificates\\[0\\].uri"},
		"a star for a domain":         {"spiffe://acme.example/agents/*", "spiffe://acme.example/*", "certificates\\[0\\].uri"},
		"no role":                     {"roles: [agent]", "roles: []", "want at least one role"},
		"the same rule twice":         {"certificates:\n", "certificates:\n  - {uri: \"spiffe://acme.example/agents/*\", tenant: globex, roles: [agent]}\n", "before it"},
		"a file that is not there":    {"    tenants:", "    ca_file: nowhere.pem\n    tenants:", "6:14: issuers\\[0\\].ca_file: .*nowhere.pem"},
		"a file without certificates": {"    tenants:", "    ca_file: identity.yaml\n    tenants:", "holds no certificate"},
		"empty":                       {goodFile, "", "one document"},
		"nobody":                      {goodFile, "api_keys: false\n", "1:11: api_keys: nobody could come in"},
	} {
		if !strings.Contains(goodFile, test.from) {
			t.Fatalf("%s: the file has no %q", name, test.from)
		}
		write(strings.Replace(goodFile, test.from, test.to, 1))
		var faults *definition.FaultsError
		if err := Check(path); !errors.As(err, &faults) || !matches(t, err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if err := Check(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// A change is taken over; a broken one leaves what was there, with the keys of
// issuers that stay.
func TestFilesAreTakenOver(t *testing.T) {
	t.Parallel()
	key := ed(t, "k")
	p, q := newProvider(t, key), newProvider(t, key)
	path := filepath.Join(t.TempDir(), "identity.yaml")
	text := func(providers ...*provider) string {
		out := "issuers:\n"
		for _, p := range providers {
			out += strings.NewReplacer("corp\n", "corp-"+p.URL[strings.LastIndexByte(p.URL, ':')+1:]+"\n", "https://login.example.com", p.URL, "\n      map: {T-1: acme}", "",
				"[realm_access, roles]", "groups").Replace(goodFile[strings.Index(goodFile, "  - name"):strings.Index(goodFile, "certificates")])
		}
		return out
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text(p))
	log, logged := recorded()
	f, err := Open(FileOptions{Path: path, Log: log, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	watching(t, f.Watch)
	a := New(Options{Store: newStore(), File: f, Now: func() time.Time { return start }})
	comesIn := func(p *provider) bool {
		_, err := a.Authenticate(t.Context(), bearer(key.token(t, standard(p))))
		return err == nil
	}
	if !comesIn(p) || comesIn(q) {
		t.Fatal("the first file is not what is in use")
	}
	write(text(p, q))
	eventually(t, "a second issuer", func() bool { return comesIn(q) })
	write(text(q) + "nonsense: true\n")
	eventually(t, "the broken file to be refused", func() bool { return strings.Contains(logged(), "nonsense") })
	if !strings.Contains(logged(), "identity.yaml:") {
		t.Errorf("the log does not say what is wrong where: %s", logged())
	}
	if !comesIn(p) || !comesIn(q) {
		t.Error("a broken file took something away")
	}
	write(text(q))
	eventually(t, "the first issuer to be gone", func() bool { return !comesIn(p) })
	if !comesIn(q) {
		t.Error("the second issuer is gone, too")
	}
	if n, m := p.reads.Load(), q.reads.Load(); n != 1 || m != 1 {
		t.Errorf("the keys were read %d and %d times: what is known of an issuer that stays is kept", n, m)
	}
}
