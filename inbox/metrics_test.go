package inbox_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/inbox"
	"github.com/onceward/onceward/ledger"
)

// told keeps what metrics are told.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (m *told) Received(tenant, provider, result string, verified bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, fmt.Sprint(tenant, " ", provider, " ", result, " ", verified))
}

// Each message is told once, and only one that is stored is the provider's own.
func TestMetricsOfMessages(t *testing.T) {
	t.Parallel()
	panics := script(func(string, actions.Message) ([]actions.Event, error) { panic("source") })
	for name, test := range map[string]struct {
		path   string
		source actions.Source
		stored error
		want   string
	}{
		"stored":         {address, says(appliedEvent()), nil, "acme fakepay stored true"},
		"no such tenant": {"/v1/webhooks/globex/fakepay", says(), nil, "globex fakepay unknown false"},
		"no name at all": {"/v1/webhooks/UPPER/fakepay", says(), nil, "UPPER fakepay unknown false"},
		"gone":           {address, says(appliedEvent()), ledger.ErrNotFound, "acme fakepay unknown false"},
		"unverified":     {address, fails(errors.New("signature")), nil, "acme fakepay unverified false"},
		"malformed":      {address, fails(actions.ErrMalformed), nil, "acme fakepay unreadable false"},
		"panic":          {address, panics, nil, "acme fakepay unreadable false"},
		"ledger away":    {address, says(appliedEvent()), ledger.ErrUnavailable, "acme fakepay unavailable false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := &told{}
			server := listening(t, &shelf{err: test.stored}, test.source, func(o *inbox.Options) { o.Metrics = told })
			send(t, http.MethodPost, server.URL+test.path, "{}")
			server.Close() // so that the handler has returned
			if !slices.Equal(told.lines, []string{test.want}) {
				t.Errorf("told %q, want %q", told.lines, test.want)
			}
		})
	}
}
