package stripemock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/catalog"
)

// mock is a running stripe-mock that remembers what it answered.
type mock struct {
	url string
	mu  sync.Mutex
	log []string // "POST /v1/refunds 200"
}

func startMock(t *testing.T) *mock {
	t.Helper()
	spec, err := server.LoadSpec(embedded.OpenAPISpec, "")
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		t.Fatal(err)
	}
	stub, err := server.NewStubServer(fixtures, spec, false, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &mock{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		stub.HandleRequest(recorder, r)
		line := fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, recorder.Code)
		if recorder.Code >= 400 {
			line += " " + recorder.Body.String()
		}
		m.mu.Lock()
		m.log = append(m.log, line)
		m.mu.Unlock()
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes()) // the client may have left
	}))
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

// take returns what was answered since the last take.
func (m *mock) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.log
	m.log = nil
	return log
}

func (m *mock) options() declared.Options {
	return declared.Options{
		Secret:          func(definition.Secret, string) (string, error) { return "sk_test_123", nil },
		BaseURL:         func(string) string { return m.url },
		PrivateNetworks: httpaction.Loopback(),
	}
}

func (m *mock) adapter(t *testing.T, p *definition.Provider, a *definition.Action) actions.Adapter {
	t.Helper()
	connection, err := declared.NewConnection(p, m.options())
	if err != nil {
		t.Fatal(err)
	}
	adapter, err := declared.HTTP(connection, a)
	if err != nil {
		t.Fatal(err)
	}
	return adapter
}

func call(t *testing.T, e definition.Example) actions.Call {
	t.Helper()
	raw, err := json.Marshal(e.Arguments)
	if err != nil {
		t.Fatal(err)
	}
	args, err := actions.ParseArguments(raw)
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{
		Tenant: "acme", OperationID: "01949b5e-6f2a-7c3d-8e4f-5a6b7c8d9e0f", ProviderKey: "0a1b2c3d4e5f6g7h8i9jklmnuv", Arguments: args,
	}
}

// Every example of every action is a request that Stripe's description allows,
// and so are the look-ups.
func TestRequestsFitStripesDescription(t *testing.T) {
	entry, _, err := catalog.Get("stripe")
	if err != nil {
		t.Fatal(err)
	}
	m, applied := startMock(t), 0
	for _, a := range entry.Actions {
		adapter := m.adapter(t, entry.Provider, a)
		for i, example := range a.Examples {
			c := call(t, example)
			outcome := adapter.Execute(t.Context(), c)
			log := m.take()
			if len(log) != 1 || !strings.HasSuffix(log[0], " 200") {
				t.Errorf("%s, example %d: stripe-mock says %q", a.Type, i, log)
			}
			if outcome.Kind == actions.Applied {
				applied++
			} else if outcome.Kind != actions.Ambiguous { // stripe-mock's objects are in any state
				t.Errorf("%s, example %d: %s %+v", a.Type, i, outcome.Kind, outcome.Failure)
			}
			looker, ok := adapter.(actions.Looker)
			if !ok {
				t.Errorf("%s has no look-up", a.Type)
				continue
			}
			for _, reference := range []string{"", outcome.Receipt.Reference} {
				looker.Lookup(t.Context(), actions.Query{
					Call: c, ProviderReference: reference, FirstSentAt: time.Unix(1_700_000_000, 0), LastSentAt: time.Unix(1_700_000_060, 0),
				})
				for _, line := range m.take() {
					if !strings.HasSuffix(line, " 200") {
						t.Errorf("%s, look-up with reference %q: stripe-mock says %q", a.Type, reference, line)
					}
				}
			}
		}
	}
	if applied == 0 {
		t.Error("no answer of stripe-mock was read as a success")
	}
}

// stripe-mock does refuse: an unknown parameter, and a number where it wants none.
func TestMockRefuses(t *testing.T) {
	entry, _, err := catalog.Get("stripe")
	if err != nil {
		t.Fatal(err)
	}
	m := startMock(t)
	for _, a := range entry.Actions {
		if a.Request.Form == nil {
			continue
		}
		wrong := *a
		request := *a.Request
		request.Form = map[string]any{"no_such_parameter": "1"}
		for name, value := range a.Request.Form {
			request.Form[name] = value
		}
		wrong.Request = &request
		outcome := m.adapter(t, entry.Provider, &wrong).Execute(t.Context(), call(t, a.Examples[0]))
		if log := m.take(); len(log) != 1 || strings.HasSuffix(log[0], " 200") || outcome.Kind == actions.Applied {
			t.Errorf("%s: an unknown parameter was taken: %q, %s", a.Type, log, outcome.Kind)
		}
	}
}
