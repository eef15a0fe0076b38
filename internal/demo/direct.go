package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/fakeprovider"
)

// playDirect sends each line as an agent's tool does that calls the provider
// itself: one POST, given up after a while, with a fresh idempotency key as
// client libraries make one for each call. A note is a row without a key.
func playDirect(ctx context.Context, o Options, lines []Line) (_ Tally, err error) {
	s, err := newStage(pace(o.Speed))
	if err != nil {
		return Tally{}, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	tool := &tool{stage: s, notes: map[target]int{}, client: &http.Client{
		Timeout: s.pace.of(patience),
		// One line is one try: on a kept connection that breaks, Go's transport
		// sends a request with an idempotency key again by itself.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	var answered atomic.Int64
	err = s.play(ctx, lines, func(ctx context.Context, line Line) error {
		defer func() { o.Progress(Progress{Play: Direct, Answered: int(answered.Add(1)), Total: len(lines)}) }()
		return tool.send(ctx, line)
	})
	if err != nil {
		return Tally{}, err
	}
	if err := s.settled(ctx); err != nil {
		return Tally{}, err
	}
	held := s.effects()
	for t, n := range tool.notes {
		held[t] += n
	}
	o.Progress(Progress{Play: Direct, Answered: len(lines), Total: len(lines), Done: true})
	return tally(lines, held), nil
}

// tool is what an agent calls in place of Onceward.
type tool struct {
	*stage
	client *http.Client

	mu    sync.Mutex
	notes map[target]int // the naive table: every insert is a row
}

// send makes the one call of a line. What comes back is of no interest: the
// trace has the agent's retries. Only a request that cannot be made is an error.
func (t *tool) send(ctx context.Context, line Line) error {
	if line.target.local() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.notes[line.target]++
		return nil
	}
	if err := t.arm(line, nil, nil); err != nil {
		return err
	}
	path, body, err := directRequest(line.Request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.server.URL()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+fakeprovider.DefaultToken)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", rand.Text())
	if resp, err := t.client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // a cut answer is one of the faults
		_ = resp.Body.Close()
	}
	if line.Fault.Kind == fakeprovider.RefuseConnection {
		return t.server.Resume()
	}
	return ctx.Err()
}

// directRequest is the provider's request for an action.
func directRequest(r Request) (path string, body []byte, err error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(r.Arguments, &members); err != nil {
		return "", nil, err
	}
	switch r.ActionType {
	case refundCreate:
		path = refundPath
	case invoiceSend:
		path = invoicePath
		members["template"] = jsontext.Value(`"invoice"`)
	case contactCreate:
		path = contactPath
		members["external_id"] = members["email"]
	default:
		return "", nil, fmt.Errorf("no provider for %s", r.ActionType)
	}
	body, err = json.Marshal(members)
	return path, body, err
}
