package fakeprovider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Control is a call of the control API beside those of the provider.
type Control struct {
	Pattern string // of an [http.ServeMux], under /_fake/: "POST /_fake/webhooks"
	Help    string // one line, beginning with method and path
	Serve   http.HandlerFunc
}

const controlHelp = `Fake provider. What can be done here:

GET    /_fake/                      this text
POST   /_fake/faults                {"match":{"method","path","body_contains","operation_id","natural_key","key"},"faults":["NAME",{"kind":...}]}
                                    without match: the next writes, in order
GET    /_fake/faults                how many wait, and the kinds there are
DELETE /_fake/faults                drop those that wait
GET    /_fake/effects               counts and list; ?operation_id= ?natural_key= to filter
GET    /_fake/requests              every request received
                                    both take ?at_least=N&timeout=5s to wait for N in all
POST   /_fake/gates/{name}/release  let go what {"hold_before":name} or {"hold_after":name} holds
GET    /_fake/gates/{name}          waits until a request stands at the gate (?timeout=5s)
POST   /_fake/advance               {"seconds":N} moves the clock, where it is a manual one
POST   /_fake/pause                 {"seconds":N} refuses connections for so long (served by Start only)
POST   /_fake/reset                 forget everything
`

// defaultControlWait and maxControlWait bound how long a control call waits.
const (
	defaultControlWait = 5 * time.Second
	maxControlWait     = time.Minute
)

// help says what there is: the control API, then the provider's own.
func (p *Provider) help() string {
	var text strings.Builder
	text.WriteString(controlHelp)
	for _, c := range p.opts.Controls {
		text.WriteString(c.Help + "\n")
	}
	text.WriteString("\nThe provider's API:\n")
	line := func(method, usual, path, what string) {
		if method == "" {
			method = usual
		}
		fmt.Fprintf(&text, "%-6s %s  (%s)\n", method, path, what)
	}
	for _, e := range p.opts.Endpoints {
		line(e.Method, http.MethodPost, e.Path, "endpoint")
	}
	for _, res := range p.opts.Resources {
		line(res.Method, http.MethodPost, res.Path, "write: "+res.Name)
		for _, l := range res.Lookups {
			line(l.Method, http.MethodGet, l.Path, "look-up: "+res.Name)
		}
	}
	return text.String()
}

func (p *Provider) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_fake/{$}", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(rw, p.help())
	})
	for _, c := range p.opts.Controls {
		mux.HandleFunc(c.Pattern, c.Serve)
	}
	mux.HandleFunc("/_fake/", func(rw http.ResponseWriter, _ *http.Request) {
		controlError(rw, http.StatusNotFound, "no such control call; GET /_fake/ lists them")
	})
	mux.HandleFunc("POST /_fake/faults", p.controlAddFaults)
	mux.HandleFunc("GET /_fake/faults", func(rw http.ResponseWriter, _ *http.Request) {
		writeControl(rw, map[string]any{"pending": p.PendingFaults(), "kinds": Kinds()})
	})
	mux.HandleFunc("DELETE /_fake/faults", func(rw http.ResponseWriter, _ *http.Request) {
		p.ClearFaults()
		writeControl(rw, map[string]any{"pending": p.PendingFaults()})
	})
	mux.HandleFunc("GET /_fake/effects", p.controlEffects)
	mux.HandleFunc("GET /_fake/requests", p.controlRequests)
	mux.HandleFunc("GET /_fake/gates/{name}", p.controlAwaitGate)
	mux.HandleFunc("POST /_fake/gates/{name}/release", func(rw http.ResponseWriter, r *http.Request) {
		p.current().gate(r.PathValue("name")).Release()
		writeControl(rw, map[string]any{"released": r.PathValue("name")})
	})
	mux.HandleFunc("POST /_fake/advance", p.controlAdvance)
	mux.HandleFunc("POST /_fake/reset", func(rw http.ResponseWriter, _ *http.Request) {
		p.Reset()
		writeControl(rw, map[string]any{"reset": true})
	})
	return mux
}

func (p *Provider) controlAddFaults(rw http.ResponseWriter, r *http.Request) {
	var in faultRequest
	if !readControl(rw, r, &in) {
		return
	}
	faults, err := in.faults(p.current())
	if err != nil {
		controlError(rw, http.StatusBadRequest, err.Error())
		return
	}
	if in.Match == nil {
		p.Next(faults...)
	} else {
		p.add(in.Match.accepts, true, faults)
	}
	writeControl(rw, map[string]any{"pending": p.PendingFaults()})
}

func (p *Provider) controlEffects(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !p.controlWait(rw, r, p.WaitEffects) {
		return
	}
	effects := p.EffectsWhere(func(e Effect) bool {
		return (!q.Has("operation_id") || e.OperationID == q.Get("operation_id")) &&
			(!q.Has("natural_key") || e.NaturalKey == q.Get("natural_key"))
	})
	byResource, byNaturalKey, byOperation := map[string]int{}, map[string]int{}, map[string]int{}
	for _, e := range effects {
		byResource[e.Resource]++
		byNaturalKey[e.NaturalKey]++
		if e.OperationID != "" {
			byOperation[e.OperationID]++
		}
	}
	writeControl(rw, map[string]any{
		"count": len(effects), "by_resource": byResource, "by_natural_key": byNaturalKey,
		"by_operation": byOperation, "effects": effects,
	})
}

func (p *Provider) controlRequests(rw http.ResponseWriter, r *http.Request) {
	if !p.controlWait(rw, r, p.WaitRequests) {
		return
	}
	received, finished := p.current().log.counts()
	writeControl(rw, map[string]any{"received": received, "finished": finished, "requests": p.Requests()})
}

// controlWait waits where the query asks for it. On failure it has answered.
func (p *Provider) controlWait(rw http.ResponseWriter, r *http.Request, wait func(context.Context, int) error) bool {
	text := r.URL.Query().Get("at_least")
	if text == "" {
		return true
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		controlError(rw, http.StatusBadRequest, "at_least must be a number")
		return false
	}
	ctx, cancel, err := controlContext(r)
	if err != nil {
		controlError(rw, http.StatusBadRequest, err.Error())
		return false
	}
	defer cancel()
	if err := wait(ctx, n); err != nil {
		controlError(rw, http.StatusRequestTimeout, err.Error())
		return false
	}
	return true
}

func (p *Provider) controlAwaitGate(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel, err := controlContext(r)
	if err != nil {
		controlError(rw, http.StatusBadRequest, err.Error())
		return
	}
	defer cancel()
	name := r.PathValue("name")
	select {
	case <-p.current().gate(name).Reached():
		writeControl(rw, map[string]any{"reached": name})
	case <-ctx.Done():
		controlError(rw, http.StatusRequestTimeout, "no request has reached gate "+name)
	}
}

func (p *Provider) controlAdvance(rw http.ResponseWriter, r *http.Request) {
	var in struct {
		Seconds float64 `json:"seconds"`
	}
	if !readControl(rw, r, &in) {
		return
	}
	if in.Seconds < 0 || in.Seconds > (10*365*24*time.Hour).Seconds() {
		controlError(rw, http.StatusBadRequest, "seconds must be from 0 to ten years")
		return
	}
	if !p.advance(time.Duration(in.Seconds * float64(time.Second))) {
		controlError(rw, http.StatusConflict, "the provider runs on the system's clock")
		return
	}
	writeControl(rw, map[string]any{"now": p.opts.Clock.Now()})
}

func controlContext(r *http.Request) (context.Context, context.CancelFunc, error) {
	limit, err := controlTimeout(r.URL.Query())
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	return ctx, cancel, nil
}

func controlTimeout(q url.Values) (time.Duration, error) {
	if !q.Has("timeout") {
		return defaultControlWait, nil
	}
	d, err := time.ParseDuration(q.Get("timeout"))
	if err != nil || d <= 0 || d > maxControlWait {
		return 0, errors.New("timeout must be a duration of at most a minute, such as 5s")
	}
	return d, nil
}

// readControl decodes a control call strictly. On failure it has answered.
func readControl(rw http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(rw, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		controlError(rw, http.StatusBadRequest, fmt.Sprintf("cannot read the body: %v", err))
		return false
	}
	return true
}

func writeControl(rw http.ResponseWriter, v any) { writeControlStatus(rw, http.StatusOK, v) }

func controlError(rw http.ResponseWriter, status int, message string) {
	writeControlStatus(rw, status, map[string]any{"error": message})
}

func writeControlStatus(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(append(encode(v), '\n'))
}
