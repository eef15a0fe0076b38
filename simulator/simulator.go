package simulator

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/fakeprovider"
)

// Options say how a contract is played. The zero value plays it on the system's
// clock.
type Options struct {
	// Clock is the provider's time. Nil means the system's.
	Clock fakeprovider.Clock
	// LookupLag replaces the lag of look-ups that have one. Zero means half of
	// their settle time.
	LookupLag time.Duration
	// MaxRequests is as in [fakeprovider.Options].
	MaxRequests int

	// WebhookURL is where POST /_fake/webhooks sends to; empty means that it
	// refuses. Client is what it sends with; nil means a plain one.
	WebhookURL string
	Client     *http.Client
}

// defaultLag is the lag of a look-up that lags and has no settle time.
const defaultLag = 3 * time.Second

// New makes a fake provider that plays a contract and these action types of it.
// Its error is a *definition.FaultsError that names each file and field that
// cannot be played.
func New(p *definition.Provider, acts []*definition.Action, o Options) (*fakeprovider.Provider, error) {
	s := &simulation{provider: p, options: o, seed: rand.Text(), now: time.Now}
	if o.Clock != nil {
		s.now = o.Clock.Now
	}
	options := s.compile(acts)
	if len(s.faults) > 0 {
		return nil, &definition.FaultsError{Faults: s.faults}
	}
	s.fake = fakeprovider.New(options)
	return s.fake, nil
}

// Secret is the value that the simulator takes for a secret: the same for one
// reference, and for every tenant. It is letters and digits, and base64 of
// something, so that it can stand wherever a provider's secret can.
func Secret(ref definition.Secret) string {
	name := ref.Env + ref.File
	sum := sha256.Sum256([]byte(name))
	readable := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, name)
	const length, most = 64, 40
	text := "simulated" + readable[:min(len(readable), most)]
	return (text + hex.EncodeToString(sum[:]))[:length]
}

// simulation is a contract on its way to a fake provider. Once compiled it does
// not change.
type simulation struct {
	provider *definition.Provider
	options  Options
	seed     string // of uuid
	now      func() time.Time

	language *expr.Language
	play     *expr.Env // of what the simulator says
	answers  *expr.Env // of what contracts say about answers
	config   map[string]any
	base     string // path of the base URL
	envelope *expr.Tree
	code     *expr.Expression
	shared   map[string]int // how many writes and look-ups have one method and path
	auth     *auth
	actions  []*action
	fake     *fakeprovider.Provider
	faults   []definition.Fault
}

// newUUID is a new one of version 4.
func newUUID() string { return expr.UUIDOf(rand.Text()) }

// bad remembers a fault.
func (s *simulation) bad(at definition.Place, field, format string, args ...any) {
	s.faults = append(s.faults, definition.Fault{Place: at, Field: field, Problem: fmt.Sprintf(format, args...)})
}

// compile makes the options of the fake provider. What it could not compile is
// in the faults.
func (s *simulation) compile(acts []*definition.Action) fakeprovider.Options {
	p := s.provider
	out := fakeprovider.Options{Clock: s.options.Clock, MaxRequests: s.options.MaxRequests, Failure: s.failure}
	if p.HTTP == nil {
		s.bad(p.Place, "http", "only providers that are reached over HTTP can be simulated")
		return out
	}
	if !s.environments() {
		return out
	}
	s.baseURL()
	if p.Errors != nil {
		s.code = s.expression(s.answers, p.Place, "errors.code", p.Errors.Code)
		if p.Errors.Simulate != nil {
			s.envelope = s.tree(p.Place, "errors.simulate", p.Errors.Simulate)
		}
	}
	s.auth = s.credentials(p.HTTP.Auth)
	common := s.rules(p.Place, p.Outcomes)
	s.countPaths(acts)
	for _, a := range acts {
		if res, ok := s.resource(a, common); ok {
			out.Resources = append(out.Resources, res)
		}
	}
	if len(acts) == 0 {
		s.bad(p.Place, "", "there is no action type to simulate")
	}
	out.BasePath = s.base
	out.Auth = s.auth.refuse
	out.Endpoints = s.auth.endpoints()
	out.Controls = s.webhooks()
	return out
}

func (s *simulation) environments() bool {
	s.config = map[string]any{}
	for name, setting := range s.provider.Config {
		s.config[name] = setting.Value
	}
	var errs [3]error
	if s.language, errs[0] = expr.NewLanguage(); errs[0] != nil {
		s.bad(s.provider.Place, "", "%v", errs[0])
		return false
	}
	s.play, errs[1] = s.language.Env("request", "id", "n", "uuid", "now", "key", "config", "code", "message", "status", "object", "objects", "answer")
	s.answers, errs[2] = s.language.Env("status", "header", "body", "text", "args", "operation", "tenant", "key", "config")
	for _, err := range errs {
		if err != nil {
			s.bad(s.provider.Place, "", "%v", err)
			return false
		}
	}
	return true
}

// baseURL finds the path that comes before the paths of requests.
func (s *simulation) baseURL() {
	text, err := s.constant(s.provider.HTTP.BaseURL)
	if err == nil {
		var u *url.URL
		if u, err = url.Parse(text); err == nil {
			s.base = strings.TrimSuffix(u.Path, "/")
		}
	}
	if err != nil {
		s.bad(s.provider.Place, "http.base_url", "%v", err)
	}
}

// constant is a template that depends on the configuration alone. It fails for
// every other.
func (s *simulation) constant(text string) (string, error) {
	t, err := s.play.Template(text)
	if err != nil {
		return "", err
	}
	return t.Text(expr.Vars{"config": s.config}, nil)
}

// expression compiles one; nil where there is none or it has a fault.
func (s *simulation) expression(env *expr.Env, at definition.Place, field, text string) *expr.Expression {
	if text == "" {
		return nil
	}
	x, err := env.Expression(text)
	if err != nil {
		s.bad(at, field, "%v", err)
	}
	return x
}

func (s *simulation) tree(at definition.Place, field string, value any) *expr.Tree {
	t, err := s.play.Tree(value)
	if err != nil {
		s.bad(at, field, "%v", err)
	}
	return t
}

// vars are the variables of what the simulator says. All are there, so that an
// expression that reads one that is not known yet finds null, and no error that
// hides another.
func (s *simulation) vars(request map[string]any) expr.Vars {
	return expr.Vars{
		"request": request, "config": s.config, "now": s.now(),
		"id": "", "n": 0, "uuid": "", "key": "", "code": "", "message": "", "status": 0,
		"object": nil, "objects": []any{}, "answer": nil,
	}
}
