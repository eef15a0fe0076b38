package definition_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/onceward/onceward/actions/definition"
)

func TestLoad(t *testing.T) {
	set, err := definition.Load("testdata/stripe")
	if err != nil {
		t.Fatal(err)
	}
	p, a := set.Providers["stripe"], set.Actions["stripe.refund.create"]
	if p == nil || a == nil {
		t.Fatalf("got %v, %v", set.Providers, set.Actions)
	}
	if p.Adapter != definition.AdapterHTTP || p.Keys.Window.Std() != 24*time.Hour || p.HTTP.Auth.Bearer.Env != "STRIPE_API_KEY" {
		t.Errorf("provider: %+v", p)
	}
	if r := p.Outcomes[0]; !r.Status[0].Has(409) || r.Status[0].Has(410) || r.Is != "in_progress" || !r.Unverified {
		t.Errorf("rule: %+v", r)
	}
	if a.Timeout.Std() != 80*time.Second || len(a.Lookups) != 2 || a.Lookups[1].Absence.Reads != 3 {
		t.Errorf("action: %+v", a)
	}
	if got := set.Place(a.Place.File, "lookups[1].absence.gap"); got.Line == 0 || got.File != filepath.Join("testdata", "stripe", "refund.yaml") {
		t.Errorf("place: %v", got)
	}
	if got := p.Secrets(); len(got) != 2 || got["webhooks.verify.secrets[0]"].Env != "STRIPE_WEBHOOK_SECRET" {
		t.Errorf("secrets: %v", got)
	}
}

// files are the good files with changes, by file and text.
func files(t *testing.T, file, from, to string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for _, name := range []string{"provider.yaml", "refund.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata/stripe", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if name == file {
			if !strings.Contains(text, from) {
				t.Fatalf("%s has no %q", file, from)
			}
			text = strings.Replace(text, from, to, 1)
		}
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// Each fault is refused with its file, line and field.
func TestLoadRefuses(t *testing.T) {
	const provider, action = "provider.yaml", "refund.yaml"
	for _, test := range []struct{ file, from, to, want string }{
		{provider, "  max_length: 255", "  max_size: 255", "provider.yaml:18:3: keys.max_size: there is no such field"},
		{provider, "  max_length: 255", "  max_length: 20", "provider.yaml:18:3: keys.max_length: our keys have 26 characters"},
		{provider, "  max_length: 255", "  alphabet: '[A-F]'", "keys.alphabet: our keys look like"},
		{provider, "  window: 24h", "  window: 24", `keys.window: is number, want string (put it in quotes)`},
		{provider, "  window: 24h", "  window: a day", `keys.window: "a day" is no length of time`},
		{provider, "  margin: 1h", "  margin: 24h", "keys.margin: leaves nothing"},
		{provider, "in_flight: conflict", "in_flight: executes", "keys.in_flight: a duplicate that is executed"},
		{provider, "place: header", "place: head", `keys.place: want one of "header"`},
		{provider, "  name: Idempotency-Key\n", "", "keys: place: header wants a name"},
		{provider, "kind: provider", "kind: supplier", "kind: want provider or action"},
		{provider, "kind: provider", "kind: provider\nkind: action", "provider.yaml:2:1: "},
		{provider, "name: stripe", "name: Stripe", "name: "},
		{provider, `version: "1"`, `version: 1`, "version: is number, want string (put it in quotes)"},
		{provider, "https://api.stripe.com", "http://api.stripe.com", "http.base_url: plain http"},
		{provider, "https://api.stripe.com", "https://10.1.2.3", "http.base_url: 10.1.2.3 is a private address"},
		{provider, "https://api.stripe.com", "http://localhost:8080", "http.base_url: localhost is a private address"},
		{provider, "https://api.stripe.com\n", "http://[::1]:8080\n  private_networks: [127.0.0.0/8]\n", "http.base_url: ::1 is a private address"},
		{action, "maximum: 99999999", "maximum: lots", "arguments.properties.amount.maximum: is no schema: is string, want number"},
		{action, "{type: integer, minimum", "{type: integr, minimum", "arguments.properties.amount.type: is no schema: "},
		{provider, "https://api.stripe.com", "https://${args.host}", "http.base_url: may hold ${config.…} and nothing else"},
		{provider, "bearer: {env: STRIPE_API_KEY}", "bearer: {env: STRIPE_API_KEY, file: key}", "http.auth.bearer: want a reference to a secret"},
		{provider, "bearer: {env: STRIPE_API_KEY}", "bearer: sk_live_123", "http.auth.bearer: is string, want object: a reference, {env: NAME}"},
		{provider, "    source: errors\nkeys:", "    source: manual\nkeys:", `http.auth.source: the provider has no document "manual"`},
		{provider, "    is: rate_limited\n    because: Rate limits are applied before the request is executed.\n", "    is: rate_limited\n", "outcomes[2]: rate_limited claims that nothing was applied"},
		{provider, "  - status: [429]\n", "  - status: [409]\n    code: [idempotency_key_in_use]\n", "outcomes[2]: overlaps outcomes[0], which takes everything that fits this one and says in_progress"},
		{provider, "  - status: [429]\n", "  - status: [600]\n", "outcomes[2].status[0]"},
		{provider, "rate_limit:\n  signals: [{header: Retry-After}]", "rate_limit:\n  signals: [{as: seconds}]", "rate_limit.signals[0]: want either a header or a value"},
		{provider, "scheme: stripe,", "scheme: stripe, header: X,", "webhooks.verify.header: belongs to scheme: hmac"},
		{provider, "name: stripe", "name: &n stripe", "anchors, aliases"},
		{provider, "name: stripe", "name: stripe\nadapter: smtp", `adapter: adapter smtp wants the part "smtp"`},
		{provider, "  - status: [429]\n", "  - status: [409, 410]\n    is: maybe_ours\n  - status: [409]\n    if: body.x\n    is: ambiguous\n  - status: [429]\n", "outcomes[3]: overlaps outcomes[2], which takes everything"},
		{provider, "  - status: [429]\n", "  - status: [409, 410]\n    code: [idempotency_key_in_use, x]\n    is: maybe_ours\n  - status: [410]\n    is: accepted\n  - status: [409]\n    code: [x]\n    is: accepted\n  - status: [429]\n", "outcomes[4]: overlaps outcomes[2]"},
		{provider, "https://api.stripe.com", "https://${config.shop}.stripe.com", "http.base_url: the provider has no config.shop"},
		{provider, "code: body.error.?code", "code: config.kind == body.error.?code", "errors.code: the provider has no config.kind"},
		{provider, "{Stripe-Version: ", "{Stripe Version: ", `"Stripe Version" is no name of a header`},
		{provider, "{Stripe-Version: ", "{authorization: ", `provider.yaml:11:13: http.headers["authorization"]: credentials belong to http.auth`},
		{provider, "{Stripe-Version: ", "{X-A: a, x-a: ", `http.headers["x-a"]: is there twice`},
		{provider, "{Stripe-Version: ", "{Content-Length: ", "is the connection's own"},
		{provider, "name: Idempotency-Key", "name: Idempotency Key", "is no name of a header"},
		{provider, "place: header\n  name: Idempotency-Key", "place: field\n  name: a..b", `keys.name: "a..b" is no path`},
		{provider, "bearer: {env: STRIPE_API_KEY}", "bearer: {env: sk_live_0123456789}", "http.auth.bearer.env: looks like a secret itself"},
		{provider, "bearer: {env: STRIPE_API_KEY}", "bearer: {env: STRIPE-KEY}", "http.auth.bearer.env: want the name of an environment variable"},
		{provider, "bearer: {env: STRIPE_API_KEY}", `bearer: {file: "/run/${name}"}`, "http.auth.bearer.file: may hold ${tenant}"},
		{provider, "bearer: {env: STRIPE_API_KEY}", `basic: {user: a, password_text: hunter2secret!}`, "password_text: is for a fixed word"},
		{provider, "  auth:\n", "  tls: {cert: a.pem}\n  auth:\n", "http.tls: cert and key go together"},
		{provider, "signals: [{header: Retry-After}]", "signals: [{header: 'Retry After'}]", "rate_limit.signals[0].header"},
		{provider, "  default: 2s", "  default: 2d", "rate_limit: max and default"},
		{provider, "scheme: stripe,", "scheme: hmac, header: X, content: [timestamp, body],", "webhooks.verify.content[0]: timestamp wants timestamp_header"},
		{provider, "scheme: stripe,", "scheme: hmac, header: X, content: ['text:a'],", "webhooks.verify.content: the body is not signed"},
		{provider, "scheme: stripe,", "scheme: hmac, header: X, content: [boddy],", "webhooks.verify.content[0]: want body"},
		{provider, "      is: applied\n      receipt: {", "      is: accepted\n      code: x\n      receipt: {", "webhooks.events[0]: code and message go with"},
		{provider, "  source: idempotency\n", "  section: a\n", "keys.section: goes with a source"},
		{action, "reads: 3, gap", "reads: 12, gap", "lookups[1].absence.reads: 12 reads in a row never fit into max_resolves: 12"},
		{action, "{name: payment, from", "{name: tenant, from", `key.parts[1].name: "tenant" is used twice`},
		{action, "{name: payment, from", "{name: distinct, from", "key.parts[1].name: "},
		{action, "type: stripe.refund.create", "type: stripe", "refund.yaml:2:1: type: "},
		{action, "reference: body.id", "reference: ''", "receipt.reference: "},
		{action, "is: rejected}", "is: refused}", "examples[0].answers[0].is: want one of"},
		{action, "metadata: {operation_id: \"${operation.id}\"}", "metadata: {a: \"${config.a}\"}", "request.form.metadata.a: the provider has no config.a"},
		{action, "  method: POST\n  path: /v1/refunds\n", "  method: POST\n  path: /v1/refunds\n  headers: {Cookie: x}\n", `request.headers["Cookie"]: credentials`},
		{action, "provider: stripe", "provider: strype", `refund.yaml:4:1: provider: there is no provider "strype"`},
		{action, "type: object", "type: objekt", "arguments: is no schema"},
		{action, "from: arguments.payment_intent", "from: arguments.charge", `key.parts[1].from: the arguments have no property "charge"`},
		{action, "advisory_args: []", "advisory_args: [amount]", `key.parts[2].from: "amount" is advisory`},
		{action, "amount: 4900, reason", "amount: -1, reason", "examples[0].arguments.amount"},
		{action, "  method: POST\n", "  method: GET\n", "request.form: a GET has no body"},
		{action, "  form:\n", "  json: {}\n  form:\n", "request: has 2 bodies (json, form)"},
		{action, "receipt:\n", "statement: {sql: SELECT 1}\nreceipt:\n", "statement: does not belong to adapter: http"},
		{action, "    match: item.metadata.operation_id == operation.id\n", "", "lookups[1]: items want a match"},
		{action, "    item: body\n", "    item: body\n    absence: {settle_time: 1m}\n", "lookups[0].absence: a look-up that needs a reference"},
		{action, "timeout: 80s", "timeout: 80s\n- x", "refund.yaml:"},
	} {
		_, err := definition.LoadFS(files(t, test.file, test.from, test.to), ".")
		var faults *definition.FaultsError
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got\n%v\nwant %s", test.to, err, test.want)
			continue
		}
		for _, f := range faults.Faults {
			if f.Place.Line == 0 {
				t.Errorf("%q: %s has no place", test.to, f)
			}
		}
	}
}

func TestLoadRefusesTwo(t *testing.T) {
	fsys := files(t, "provider.yaml", "kind", "kind")
	fsys["again.yaml"] = fsys["refund.yaml"]
	if _, err := definition.LoadFS(fsys, "."); err == nil || !strings.Contains(err.Error(), "refund.yaml:2:1: type: stripe.refund.create is declared in again.yaml too") {
		t.Errorf("got %v", err)
	}
	if _, err := definition.LoadFS(fstest.MapFS{"a.txt": {}}, "."); err == nil || !strings.Contains(err.Error(), "no .yaml files") {
		t.Errorf("got %v", err)
	}
	fsys = files(t, "provider.yaml", "kind", "kind")
	fsys["two.yaml"] = &fstest.MapFile{Data: []byte("kind: provider\n---\nkind: action\n")}
	fsys[".hidden/bad.yaml"] = &fstest.MapFile{Data: []byte("{")}
	if _, err := definition.LoadFS(fsys, "."); err == nil || err.Error() != "two.yaml:3:1: want exactly one document in a file: each provider and each action has its own" {
		t.Errorf("got %v", err)
	}
}

// A rule that is a special case of a later one does not overlap it.
func TestRulesMayBeSpecial(t *testing.T) {
	fsys := files(t, "provider.yaml", "  - status: [429]\n", "  - status: [409]\n    is: maybe_ours\n  - status: [429]\n")
	if _, err := definition.LoadFS(fsys, "."); err != nil {
		t.Error(err)
	}
}

func TestEachProof(t *testing.T) {
	set, err := definition.Load("testdata/stripe")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]definition.Proof{}
	definition.EachProof(set.Providers["stripe"], func(field string, p definition.Proof) { fields[field] = p })
	want := []string{
		"errors", "http.auth", "keys", "outcomes[0]", "outcomes[1]", "outcomes[2]", "rate_limit",
		"webhooks", "webhooks.events[0]", "webhooks.events[0].receipt",
	}
	if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if fields["keys"].Source != "idempotency" || !fields["outcomes[0]"].Unverified {
		t.Errorf("got %v", fields)
	}
}

func TestJSONSchema(t *testing.T) {
	for _, kind := range []string{"provider", "action"} {
		if text, err := definition.JSONSchema(kind); err != nil || !strings.Contains(string(text), "2020-12") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := definition.JSONSchema("../load"); err == nil {
		t.Error("no such schema")
	}
}

// An AdapterService is named by host and port, IPv6 too.
func TestGRPCAddress(t *testing.T) {
	for address, want := range map[string]string{
		"adapter.internal:50051": "", "127.0.0.1:1": "", "[::1]:50051": "", "localhost:50051": "",
		"adapter": "grpc.address", ":50051": "grpc.address", "::1:50051": "grpc.address", "a:0": "grpc.address", "a:99999": "grpc.address",
		"https://a:443": "grpc.address", "10.0.0.1:443": "grpc.plain_text", "[2001:db8::1]:443": "grpc.plain_text",
	} {
		text := "kind: provider\nname: own\nversion: \"1\"\nadapter: grpc\ngrpc: {address: '" + address + "', plain_text: true}\n"
		_, err := definition.LoadFS(fstest.MapFS{"f.yaml": {Data: []byte(text)}}, ".")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// A file that is named twice, in two ways, is one file; the order of faults is
// always the same.
func TestLoadNamesFilesOnce(t *testing.T) {
	set, err := definition.Load("testdata/stripe", "./testdata/stripe/refund.yaml", "testdata/../testdata/stripe")
	if err != nil || len(set.Files) != 2 {
		t.Errorf("got %v", err)
	}
	fsys := files(t, "refund.yaml", "lookups:", "statement: {sql: SELECT 1}\nmail: {from: a, to: b, subject: c}\nlookups:")
	_, first := definition.LoadFS(fsys, ".")
	for range 5 {
		if _, err := definition.LoadFS(fsys, "."); err == nil || err.Error() != first.Error() {
			t.Fatalf("got %v, then %v", first, err)
		}
	}
}
