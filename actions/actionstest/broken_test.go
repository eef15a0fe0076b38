package actionstest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/actionstest"
	"github.com/onceward/onceward/actions/demo"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/internal/pgtest"
	"github.com/onceward/onceward/ledger/ledgertest"
	"github.com/onceward/onceward/proof"
)

// broken is a good adapter with one mistake. It keeps its inner adapter's
// look-up, and renders nothing beforehand.
type broken struct {
	actions.Adapter
	name    string // a part of its action type
	spec    func(*actions.Spec)
	execute func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome
	lookup  func(actions.Finding) actions.Finding
}

var _ actions.Looker = broken{}

func (b broken) Spec() actions.Spec {
	spec := b.Adapter.Spec()
	spec.Type += "." + b.name
	if b.spec != nil {
		b.spec(&spec)
	}
	return spec
}

func (b broken) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	if b.execute == nil {
		return b.Adapter.Execute(ctx, call)
	}
	return b.execute(ctx, b.Adapter, call)
}

func (b broken) Lookup(ctx context.Context, query actions.Query) actions.Finding {
	looker, ok := b.Adapter.(actions.Looker)
	if !ok {
		return actions.Finding{}
	}
	found := looker.Lookup(ctx, query)
	if b.lookup != nil {
		return b.lookup(found)
	}
	return found
}

// breaking is a demo subject with a mistake.
func breaking(action int, b broken) proof.Subject {
	s := subject(action, demo.Options{}, fakeprovider.Options{})
	open := s.Open
	s.Open = func(ctx context.Context, env proof.Env) (actions.Adapter, proof.Target, error) {
		adapter, target, err := open(ctx, env)
		adapted := b
		adapted.Adapter = adapter
		return adapted, target, err
	}
	return s
}

// instead gives an ambiguous outcome another name.
func instead(o actions.Outcome) func(context.Context, actions.Adapter, actions.Call) actions.Outcome {
	return func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
		got := inner.Execute(ctx, call)
		if got.Kind == actions.Ambiguous {
			return o
		}
		return got
	}
}

// mistake is one that adapters are known for, and where it must be seen.
type mistake struct {
	subject proof.Subject
	want    map[string]proof.Verdict // by path
	dangers []string
}

func mistakes() map[string]mistake {
	return map[string]mistake{
		"retries inside, without a key": {
			subject: breaking(invoice, broken{name: "retry", execute: retryInside}),
			want:    map[string]proof.Verdict{"drop-fin": proof.Unsafe, "error-after": proof.Unsafe, "plain": proof.Safe},
		},
		"retries inside, with a key": {
			subject: breaking(refund, broken{name: "retry", execute: retryInside}),
			want:    map[string]proof.Verdict{"drop-fin": proof.Unsafe, "plain": proof.Safe},
		},
		"retries in the background": {
			subject: breaking(invoice, broken{name: "background", execute: func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
				context.AfterFunc(ctx, func() { inner.Execute(context.WithoutCancel(ctx), call) })
				return inner.Execute(ctx, call)
			}}),
			want: map[string]proof.Verdict{"plain": proof.Unsafe},
		},
		"a time-out is a failure": {
			subject: breaking(refund, broken{name: "failure", execute: instead(actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "timeout"}})}),
			want:    map[string]proof.Verdict{"slow-applied": proof.Lie, "slow-late": proof.Lie, "drop-rst": proof.Lie, "slow-lost": proof.Safe},
		},
		"a time-out is retried": {
			subject: breaking(invoice, broken{name: "retried", execute: instead(actions.Outcome{Kind: actions.NotApplied})}),
			want:    map[string]proof.Verdict{"slow-applied": proof.Unsafe, "gateway-after": proof.Unsafe, "gateway-before": proof.Safe},
		},
		"not found at once is absence": {
			subject: breaking(invoice, broken{name: "hasty", spec: func(s *actions.Spec) { s.Contract.Lookup.SettleTime = 0 }}),
			want:    map[string]proof.Verdict{"lookup-lags": proof.Unsafe, "drop-fin": proof.Safe},
			dangers: []string{"no_settle_time"},
		},
		"a failed look-up is absence": {
			subject: breaking(contact, broken{name: "failed_lookup", lookup: func(f actions.Finding) actions.Finding {
				if f.Kind == actions.Inconclusive {
					f.Kind = actions.Absent
				}
				return f
			}}),
			want: map[string]proof.Verdict{"lookup-down": proof.Unsafe, "lookup-gateway": proof.Unsafe, "plain": proof.Safe},
		},
		"success without an effect": {
			subject: breaking(refund, broken{name: "made_up", execute: instead(actions.Outcome{
				Kind: actions.Applied, Receipt: actions.Receipt{Reference: "re_made_up", JSON: json.RawMessage(`{}`)}})}),
			want: map[string]proof.Verdict{"drop-before": proof.Lie, "drop-fin": proof.Lie, "slow-lost": proof.Lie, "plain": proof.Safe},
		},
		"a new key for each attempt": {
			subject: breaking(refund, broken{name: "fresh_key", execute: newKeyEachTime()}),
			want:    map[string]proof.Verdict{"drop-fin": proof.Unsafe, "drop-before": proof.Unsafe, "plain": proof.Safe},
		},
		"a promise of keys, and none is sent": {
			subject: breaking(invoice, broken{name: "no_key", spec: func(s *actions.Spec) {
				s.Contract.Keys = actions.KeyRules{Honoured: true, Window: 24 * time.Hour, Margin: time.Hour}
			}}),
			want: map[string]proof.Verdict{"drop-fin": proof.Unsafe, "plain": proof.Unsafe},
		},
		"the first of two is taken": {
			subject: breaking(invoice, broken{name: "first_of_two", lookup: func(f actions.Finding) actions.Finding {
				if f.Kind == actions.Several {
					return actions.Finding{Kind: actions.Found, Receipt: actions.Receipt{
						Reference: strings.TrimSuffix(f.References[0], "_again"), JSON: json.RawMessage(`{}`)}}
				}
				return f
			}}),
			want: map[string]proof.Verdict{"lookup-two": proof.Lie, "drop-fin": proof.Safe},
		},
		"a credential in the evidence": {
			subject: breaking(refund, broken{name: "evidence", execute: func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
				o := inner.Execute(ctx, call)
				o.Failure.Evidence += " Authorization: Bearer " + fakeprovider.DefaultToken
				return o
			}}),
			want: map[string]proof.Verdict{"refused": proof.Leak, "drop-fin": proof.Leak},
		},
		"a credential in the receipt": {
			subject: breaking(refund, broken{name: "receipt", execute: func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
				o := inner.Execute(ctx, call)
				if o.Kind == actions.Applied {
					o.Receipt.JSON, _ = json.Marshal(map[string]string{"id": o.Receipt.Reference, "sent_with": fakeprovider.DefaultToken})
				}
				return o
			}}),
			want: map[string]proof.Verdict{"plain": proof.Leak},
		},
		"it never says what happened": {
			subject: breaking(refund, broken{
				name: "silent",
				execute: func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
					inner.Execute(ctx, call)
					return actions.Outcome{}
				},
				lookup: func(actions.Finding) actions.Finding { return actions.Finding{} },
			}),
			want: map[string]proof.Verdict{"plain": proof.Stuck, "drop-fin": proof.Safe},
		},
		"it panics": {
			subject: breaking(refund, broken{name: "panics", execute: func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
				if o := inner.Execute(ctx, call); o.Kind == actions.Applied {
					return o
				}
				panic("no idea")
			}}),
			want: map[string]proof.Verdict{"drop-fin": proof.Safe, "drop-before": proof.Safe, "refused": proof.Safe},
		},
		"what one writes first": {
			subject: proof.Subject{Arguments: example(invoice), Open: openNaive, Acknowledged: map[string]string{"no_resolution": "it is naive"}},
			want: map[string]proof.Verdict{
				"redirect-307": proof.Unsafe, "error-after": proof.Lie, "gateway-after": proof.Lie,
				"slow-applied": proof.Lie, "unreachable": proof.Safe, "plain": proof.Safe, "lookup-lags": proof.NotApplicable,
			},
		},
	}
}

func retryInside(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
	o := inner.Execute(ctx, call)
	if o.Kind == actions.Ambiguous {
		return inner.Execute(ctx, call)
	}
	return o
}

func newKeyEachTime() func(context.Context, actions.Adapter, actions.Call) actions.Outcome {
	var n atomic.Int64
	return func(ctx context.Context, inner actions.Adapter, call actions.Call) actions.Outcome {
		call.ProviderKey = fmt.Sprintf("fresh%d", n.Add(1))
		return inner.Execute(ctx, call)
	}
}

// naive is an adapter over net/http as it is: everything but a 2xx is a failure.
type naive struct {
	*demo.Invoices
	url string
}

func openNaive(ctx context.Context, env proof.Env) (actions.Adapter, proof.Target, error) {
	adapter, target, err := subject(invoice, demo.Options{}, fakeprovider.Options{}).Open(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	invoices, _ := adapter.(*demo.Invoices)
	fake, _ := target.(*proof.Fake)
	// Without the look-up and the rendering that the embedded adapter has.
	return struct{ actions.Adapter }{naive{invoices, fake.URL()}}, fake, nil
}

func (n naive) Spec() actions.Spec {
	spec := n.Invoices.Spec()
	spec.Type += ".naive"
	spec.Contract.Lookup = actions.LookupRules{}
	return spec
}

func (n naive) Execute(ctx context.Context, call actions.Call) actions.Outcome {
	failure := func(what string) actions.Outcome {
		return actions.Outcome{Kind: actions.Rejected, Failure: actions.Failure{Code: "failed", Message: what}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/v1/emails", bytes.NewReader(call.Arguments.JSON()))
	if err != nil {
		return failure("no request")
	}
	req.Header.Set("Authorization", "Bearer "+fakeprovider.DefaultToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return failure("no answer")
	}
	defer resp.Body.Close()
	var mail struct {
		ID string `json:"id"`
	}
	if resp.StatusCode > 299 || json.NewDecoder(resp.Body).Decode(&mail) != nil {
		return failure(resp.Status)
	}
	return actions.Outcome{Kind: actions.Applied, Receipt: actions.Receipt{Reference: mail.ID, JSON: json.RawMessage(`{}`)}}
}

// TestMistakes: a suite that cannot fail is a defect. Each mistake is seen on the
// paths where it does harm, and other paths do not blame it. One Onceward serves
// them all.
func TestMistakes(t *testing.T) {
	t.Parallel()
	all := mistakes()
	names := slices.Sorted(maps.Keys(all))
	var subjects []proof.Subject
	paths := map[string]bool{}
	for _, name := range names {
		subjects = append(subjects, all[name].subject)
		for path := range all[name].want {
			paths[path] = true
		}
	}
	db := ledgertest.NewDatabase(t)
	report, err := proof.Run(t.Context(), proof.Options{
		OwnerURL: db.OwnerURL, ServeURL: db.ServeURL, Subjects: subjects, Select: func(path string) bool { return paths[path] },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			for path, want := range all[name].want {
				got, _ := report.Subjects[i].Path(path)
				if got.Verdict != want {
					t.Errorf("%s: %s (%s), want %s; %s", path, got.Verdict, got.Detail, want, counted(got))
				}
			}
			for _, code := range all[name].dangers {
				if !hasError(report.Subjects[i].Dangers, code) {
					t.Errorf("danger %s is not among %+v", code, report.Subjects[i].Dangers)
				}
			}
		})
	}
}

// counted says what was seen of a path.
func counted(p proof.PathReport) string {
	return fmt.Sprintf("%d writes, %d attempts, %d effects, %s %s", p.Writes, p.Attempts, p.Effects, p.State, p.Reason)
}

func hasError(dangers []proof.Danger, code string) bool {
	for _, d := range dangers {
		if d.Code == code && d.Severity == proof.Error {
			return true
		}
	}
	return false
}

// TestRunFails: the test of an adapter with a mistake fails. It is run in another
// process, since it must fail here too.
func TestRunFails(t *testing.T) {
	t.Parallel()
	const inside = "ACTIONSTEST_INSIDE"
	if os.Getenv(inside) != "" {
		actionstest.Run(t, mistakes()["not found at once is absence"].subject)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunFails$")
	cmd.Env = append(os.Environ(), inside+"=1", pgtest.EnvURL+"="+pgtest.AdminURL(t))
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"--- FAIL: TestRunFails/lookup-lags", "UNSAFE", "danger no_settle_time"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: no %q in the output:\n%s", err, want, out)
		}
	}
}
