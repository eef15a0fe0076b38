package declared_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The files of most tests. A test adds the parts that it is about.
const (
	providerHead = `
kind: provider
name: acme
version: "7"
http:
  base_url: https://api.acme.test/v2
`
	actionHead = `
kind: action
type: acme.refund.create
version: "3"
provider: acme
description: Refund a charge.
doubt: person
arguments:
  type: object
  required: [charge, amount]
  properties:
    charge: {type: string}
    amount: {type: integer}
    price: {type: number}
    note: {type: string}
    tags: {type: array, items: {type: string}}
    lines: {type: array}
examples:
  - arguments: {charge: ch_1, amount: 1200}
`
	refund = `
request:
  method: POST
  path: /refunds
  json: {charge: "${args.charge}", amount: "${args.amount}", metadata: {operation_id: "${operation.id}"}}
receipt:
  reference: body.id
  fields: {id: body.id, amount: body.amount}
`
)

// noPrivate leaves the private networks to the definition.
func noPrivate(o *declared.Options) { o.PrivateNetworks = nil }

// load reads a provider and an action as files are read.
func load(t *testing.T, provider, action string) (*definition.Provider, *definition.Action) {
	t.Helper()
	set, err := definition.LoadFS(fstest.MapFS{
		"provider.yaml": {Data: []byte(provider)}, "action.yaml": {Data: []byte(action)},
	}, "provider.yaml", "action.yaml")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, provider, action)
	}
	return set.Providers["acme"], set.Actions["acme.refund.create"]
}

// answerer is a provider that answers each request by a function and remembers
// what it saw.
type answerer struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []seen
	answer func(w http.ResponseWriter, r *http.Request, n int)
}

type seen struct {
	method, target string
	header         http.Header
	body           string
}

// serve starts a provider; n counts its requests from 0.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *answerer {
	t.Helper()
	p := &answerer{answer: answer}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		n := len(p.seen)
		p.seen = append(p.seen, seen{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
		answer := p.answer
		p.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(p.Close)
	return p
}

// says answers everything with one status and body.
func says(t *testing.T, status int, header http.Header, body string) *answerer {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, status, header, body) })
}

// cutAfter says text, and then closes the connection.
func cutAfter(text string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, text)
	}
}

// turn makes a provider another one, which has seen nothing: adapters are dear,
// and tables long.
func (p *answerer) turn(answer func(w http.ResponseWriter, r *http.Request, n int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.answer = nil, answer
}

// turnTo makes it one that answers everything with one status and body.
func (p *answerer) turnTo(status int, header http.Header, body string) {
	p.turn(func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, status, header, body) })
}

func write(w http.ResponseWriter, status int, header http.Header, body string) {
	w.Header().Set("Content-Type", "application/json")
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (p *answerer) requests() []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]seen(nil), p.seen...)
}

// one returns the only request.
func (p *answerer) one(t *testing.T) seen {
	t.Helper()
	all := p.requests()
	if len(all) != 1 {
		t.Fatalf("the provider saw %d requests, want one", len(all))
	}
	return all[0]
}

const (
	theSecret = "sk_live_0123456789" // of every reference
	theKey    = "0123456789abcdefghijklmnop"
	theID     = "01890a5d-ac96-774b-bcce-b302099a8057"
)

// options play a provider at an address.
func options(address string) declared.Options {
	return declared.Options{
		Secret:          func(definition.Secret, string) (string, error) { return theSecret, nil },
		BaseURL:         func(string) string { return address },
		PrivateNetworks: httpaction.Loopback(),
	}
}

// build makes an adapter; change may alter the options.
func build(t *testing.T, address, provider, action string, change ...func(*declared.Options)) actions.Adapter {
	t.Helper()
	p, a := load(t, provider, action)
	o := options(address)
	for _, c := range change {
		c(&o)
	}
	conn, err := declared.NewConnection(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	adapter, err := declared.HTTP(conn, a)
	if err != nil {
		t.Fatal(err)
	}
	return adapter
}

// call is a call with arguments.
func call(t *testing.T, args string) actions.Call {
	t.Helper()
	parsed, err := actions.ParseArguments([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{Tenant: "acme", OperationID: theID, ProviderKey: theKey, Arguments: parsed}
}

const theArgs = `{"charge":"ch_1","amount":1200}`

// render returns the rendered request as text.
func render(t *testing.T, a actions.Adapter, c actions.Call) string {
	t.Helper()
	text, err := a.(actions.Renderer).Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// wantNoSecret checks that nothing of an outcome tells the secret.
func wantNoSecret(t *testing.T, values ...any) {
	t.Helper()
	for _, v := range values {
		if text := fmt.Sprintf("%+v", v); strings.Contains(text, theSecret) {
			t.Errorf("the secret is in %s", text)
		}
	}
}
