package actions

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub is an adapter that has a spec and an opinion on arguments, and never
// sends anything.
type stub struct {
	spec     Spec
	validate func(Arguments) error
}

var _ Adapter = stub{}

func (s stub) Spec() Spec { return s.spec }

func (s stub) Validate(args Arguments) error {
	if s.validate == nil {
		return nil
	}
	return s.validate(args)
}

func (stub) Execute(context.Context, Call) Outcome { return Outcome{} }

// goodSpec is the least that a registry accepts.
func goodSpec(actionType string) Spec {
	return Spec{
		Type: actionType, Version: "1", Schema: json.RawMessage(`{"type":"object","required":["amount"]}`),
		Contract: Contract{Provider: "fakepay", Version: "1"},
	}
}

func TestRegistryKeepsActionsSorted(t *testing.T) {
	r, err := NewRegistry(stub{spec: goodSpec("pay.refund")}, stub{spec: goodSpec("mail.send")}, stub{spec: goodSpec("pay.charge")})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, a := range r.All() {
		types = append(types, a.Spec.Type)
	}
	if want := []string{"mail.send", "pay.charge", "pay.refund"}; !slices.Equal(types, want) {
		t.Errorf("All is %q, want %q", types, want)
	}
	a, ok := r.Get("pay.charge")
	if !ok || a.Spec.Type != "pay.charge" || a.Adapter == nil {
		t.Fatalf("Get found %+v, %t", a, ok)
	}
	if a.Spec.Timeout != DefaultTimeout {
		t.Errorf("timeout is %s: defaults are not filled in", a.Spec.Timeout)
	}
	if a, ok := r.Get("pay.payout"); ok {
		t.Errorf("Get found %+v", a)
	}
}

func TestSensitiveReceiptsOfAProvider(t *testing.T) {
	hiding := func(actionType, provider, version string, fields ...string) Adapter {
		spec := goodSpec(actionType)
		spec.Version, spec.Contract.Provider, spec.SensitiveReceipt = version, provider, fields
		return stub{spec: spec}
	}
	r, err := NewRegistry(hiding("pay.refund", "fakepay", "1", "card", "iban"), hiding("pay.charge", "fakepay", "1", "card"), hiding("mail.send", "fakemail", "1", "to"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.SensitiveReceipts("fakepay"), []string{"card", "iban"}; !slices.Equal(got, want) {
		t.Errorf("fakepay hides %q, want %q", got, want)
	}
	if got := r.SensitiveReceipts("fakeship"); len(got) != 0 {
		t.Errorf("nobody hides %q", got)
	}
	// Operations that began with a former version are under way still.
	if err := r.Replace(hiding("pay.refund", "fakepay", "2", "name")); err != nil {
		t.Fatal(err)
	}
	if got, want := r.SensitiveReceipts("fakepay"), []string{"card", "iban", "name"}; !slices.Equal(got, want) {
		t.Errorf("after a change fakepay hides %q, want %q", got, want)
	}
}

func TestEmptyRegistry(t *testing.T) {
	r, err := NewRegistry()
	if err != nil || len(r.All()) != 0 {
		t.Errorf("empty registry: %v, %v", r.All(), err)
	}
}

func TestRegistryReportsAllFaultsAtOnce(t *testing.T) {
	noVersion, noSchema, badKey := goodSpec("a.no_version"), goodSpec("a.no_schema"), goodSpec("a.bad_key")
	noVersion.Version, noVersion.Contract.Provider = "", ""
	noSchema.Schema = nil
	badKey.Key = []KeyPart{{Name: "Bad", From: "prompt"}}
	r, err := NewRegistry(
		stub{spec: goodSpec("a.good")}, stub{spec: noVersion}, stub{spec: noSchema}, stub{spec: badKey}, stub{spec: goodSpec("a.good")},
	)
	if err == nil || r != nil {
		t.Fatalf("registry is %v, error %v", r, err)
	}
	for _, want := range []string{
		`action type "a.no_version": version is empty`, "contract: provider and version are required",
		`action type "a.no_schema": schema is missing`,
		`action type "a.bad_key": key part name "Bad"`, `source "prompt"`,
		`action type "a.good": registered twice`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestActionValidatesBySchemaThenAdapter(t *testing.T) {
	asked := 0
	r, err := NewRegistry(stub{spec: goodSpec("pay.charge"), validate: func(args Arguments) error {
		asked++
		if text, _ := args.Text("amount"); text == "0" {
			return &ArgumentsError{Violations: []Violation{{Field: "amount", Reason: "ZERO", Message: "must not be zero"}}}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := r.Get("pay.charge")
	refused(t, a.Validate(parse(t, `{}`)), "amount: REQUIRED")
	if asked != 0 {
		t.Error("the adapter was asked about arguments that the schema refuses")
	}
	refused(t, a.Validate(parse(t, `{"amount":0}`)), "amount: ZERO")
	if err := a.Validate(parse(t, `{"amount":1}`)); err != nil {
		t.Error(err)
	}
}

func TestSpecCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		want   string // empty: accepted
	}{
		{"good", func(*Spec) {}, ""},
		{"a token for a long attempt", func(s *Spec) { s.TokenAudience, s.Timeout = "billing", MaxTokenLife }, ""},
		{"a token for too long an attempt", func(s *Spec) { s.TokenAudience, s.Timeout = "billing", MaxTokenLife+1 }, "no service would take the token"},
		{"recipe", func(s *Spec) { s.Key = []KeyPart{{"tenant", "tenant"}, {"invoice", "arguments.invoice.id"}} }, ""},
		{"keys honoured", func(s *Spec) {
			s.Contract.Keys = KeyRules{Honoured: true, MaxLength: ProviderKeyLength, Window: time.Hour, Margin: time.Minute}
		}, ""},
		{"no type", func(s *Spec) { s.Type = "" }, "type"},
		{"one word", func(s *Spec) { s.Type = "refund" }, "type"},
		{"upper case", func(s *Spec) { s.Type = "pay.Refund" }, "type"},
		{"long type", func(s *Spec) { s.Type = "a." + strings.Repeat("b", 99) }, "type"},
		{"no version", func(s *Spec) { s.Version = "" }, "version is empty"},
		{"no provider", func(s *Spec) { s.Contract.Provider = "" }, "contract"},
		{"no contract version", func(s *Spec) { s.Contract.Version = "" }, "contract"},
		{"part name", func(s *Spec) { s.Key = []KeyPart{{"in|voice", "run"}} }, "key part name"},
		{"part twice", func(s *Spec) { s.Key = []KeyPart{{"run", "run"}, {"run", "step"}} }, "used twice"},
		{"part source", func(s *Spec) { s.Key = []KeyPart{{"time", "clock"}} }, "key part time"},
		{"short keys", func(s *Spec) { s.Contract.Keys = KeyRules{Honoured: true, MaxLength: 10, Window: time.Hour} }, "cannot hold ours"},
		{"no key window", func(s *Spec) { s.Contract.Keys = KeyRules{Honoured: true} }, "is empty"},
		{"margin eats window", func(s *Spec) { s.Contract.Keys = KeyRules{Honoured: true, Window: 1, Margin: 1} }, "is empty"},
		{"negative timeout", func(s *Spec) { s.Timeout = -1 }, "timeout is negative"},
		{"negative window", func(s *Spec) { s.Window = -1 }, "window is negative"},
		{"negative settle time", func(s *Spec) { s.Contract.Lookup.SettleTime = -1 }, "settle_time is negative"},
		{"negative attempts", func(s *Spec) { s.MaxAttempts = -1 }, "cannot be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := goodSpec("pay.charge")
			c.change(&spec)
			err := spec.WithDefaults().check()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error is %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestSpecDefaults(t *testing.T) {
	got := Spec{}.WithDefaults()
	if got.Timeout != DefaultTimeout || got.MaxAttempts != DefaultMaxAttempts || got.MaxResolves != DefaultMaxResolves ||
		got.Window != DefaultWindow || got.ApprovalTTL != DefaultApprovalTTL ||
		got.Contract.Lookup.NegativeReads != DefaultNegativeReads || got.Contract.Lookup.ReadGap != DefaultReadGap {
		t.Errorf("defaults are %+v", got)
	}
	set := Spec{Timeout: 1, MaxAttempts: 2, MaxResolves: 3, Window: 4, ApprovalTTL: 5}
	set.Contract.Lookup = LookupRules{NegativeReads: 6, ReadGap: 7}
	if got := set.WithDefaults(); got.Timeout != 1 || got.MaxAttempts != 2 || got.MaxResolves != 3 || got.Window != 4 ||
		got.ApprovalTTL != 5 || got.Contract.Lookup != set.Contract.Lookup {
		t.Errorf("what was set became %+v", got)
	}
}

func TestKeyHorizon(t *testing.T) {
	for _, c := range []struct {
		rules KeyRules
		want  time.Duration
	}{
		{KeyRules{}, 0},
		{KeyRules{Window: time.Hour}, 0},
		{KeyRules{Honoured: true, Window: time.Hour, Margin: time.Minute}, 59 * time.Minute},
		{KeyRules{Honoured: true, Window: time.Minute, Margin: time.Hour}, 0},
	} {
		if got := c.rules.Horizon(); got != c.want {
			t.Errorf("horizon of %+v is %s, want %s", c.rules, got, c.want)
		}
	}
}

// TestZeroValuesAreCareful holds what the rest of the program relies on.
func TestZeroValuesAreCareful(t *testing.T) {
	if k := (Outcome{}).Kind; k != Ambiguous || k.String() != "ambiguous" {
		t.Errorf("zero outcome is %s", k)
	}
	if k := (Finding{}).Kind; k != Inconclusive || k.String() != "inconclusive" {
		t.Errorf("zero finding is %s", k)
	}
	if e := (Spec{}).ExpiredKey; e != Reject || e.String() != "reject" {
		t.Errorf("zero expired key is %s", e)
	}
	for got, want := range map[string]string{
		RateLimited.String(): "rate_limited", Foreign.String(): "foreign", RiskHigh.String(): "high", Reuse.String(): "reuse",
		Kind(99).String(): "invalid", FindingKind(-1).String(): "invalid",
	} {
		if got != want {
			t.Errorf("name is %q, want %q", got, want)
		}
	}
}

// What is under way goes on with the version that it began with.
func TestReplace(t *testing.T) {
	versioned := func(adapter, contract string) stub {
		spec := goodSpec("pay.refund")
		spec.Version, spec.Contract.Version = adapter, contract
		return stub{spec: spec}
	}
	r, err := NewRegistry(versioned("1", "1"))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := r.Get("pay.refund")
	bad := versioned("2", "1")
	bad.spec.Schema = nil
	if err := r.Replace(bad); err == nil {
		t.Error("a fault was taken")
	}
	if now, ok := r.Get("pay.refund"); !ok || now != first {
		t.Error("a fault changed something")
	}
	if err := r.Replace(versioned("2", "1")); err != nil {
		t.Fatal(err)
	}
	second, _ := r.Get("pay.refund")
	for _, test := range []struct {
		adapter, contract string
		want              *Action
	}{
		{"1", "1", first}, {"2", "1", second}, {"1", "2", second}, {"0", "0", second},
	} {
		if got, ok := r.At("pay.refund", test.adapter, test.contract); !ok || got != test.want {
			t.Errorf("version %s, contract %s: got %v", test.adapter, test.contract, got.Spec.Version)
		}
	}
	if err := r.Replace(); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Get("pay.refund"); ok || len(r.All()) != 0 {
		t.Error("what was taken away is there for new requests")
	}
	if got, ok := r.At("pay.refund", "1", "1"); !ok || got != first {
		t.Error("what was taken away is not there for what is under way")
	}
	if _, ok := r.At("pay.refund", "7", "1"); ok {
		t.Error("found an unknown version")
	}
}

// A registry whose files change all the time does not grow for ever, and readers
// see one state or another and never half of one.
func TestReplaceOftenAndAtOnce(t *testing.T) {
	versioned := func(n int) []Adapter {
		a, b := goodSpec("pay.refund"), goodSpec("pay.charge")
		a.Version, b.Version = strconv.Itoa(n), strconv.Itoa(n)
		return []Adapter{stub{spec: a}, stub{spec: b}}
	}
	r, err := NewRegistry(versioned(0)...)
	if err != nil {
		t.Fatal(err)
	}
	const last = 200
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if all := r.All(); len(all) != 2 || all[0].Spec.Version != all[1].Spec.Version {
					t.Error("two versions at once")
					return
				}
				r.At("pay.refund", "0", "1")
				if _, ok := r.Get("pay.refund"); !ok {
					t.Error("is gone")
					return
				}
			}
		})
	}
	for w := range 2 {
		writers.Go(func() {
			for n := w; n <= last; n += 2 {
				if err := r.Replace(versioned(n)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	// Which writer ended last is chance; these two are in order.
	for _, n := range []int{last, last + 1} {
		if err := r.Replace(versioned(n)...); err != nil {
			t.Fatal(err)
		}
	}
	if kept := len(r.now.Load().superseded["pay.refund"]); kept != maxSuperseded {
		t.Errorf("%d versions are kept", kept)
	}
	if a, _ := r.At("pay.refund", strconv.Itoa(last), "1"); a.Spec.Version != strconv.Itoa(last) {
		t.Errorf("the last version is gone: got %s", a.Spec.Version)
	}
	if a, _ := r.At("pay.refund", "1", "1"); a.Spec.Version != strconv.Itoa(last+1) {
		t.Errorf("the first version is there: got %s", a.Spec.Version)
	}
}
