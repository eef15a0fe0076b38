package grpcaction

import (
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onceward/onceward/actions"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// full is a description in which everything is said.
func full() *oncewardv1.ActionTypeDescription {
	d := description()
	d.HashKey, d.AdvisoryArguments = true, []string{"note"}
	d.RequiresApproval, d.ApprovalTtl = true, durationpb.New(time.Hour)
	d.AttemptTimeout, d.MaxAttempts, d.MaxResolves = durationpb.New(7*time.Second), 4, 9
	d.Window, d.ExpiredKey = durationpb.New(48*time.Hour), oncewardv1.ExpiredKey_EXPIRED_KEY_REUSE
	d.Contract.Keys = &oncewardv1.KeyRules{Honoured: true, MaxLength: 64, Window: durationpb.New(24 * time.Hour), Margin: durationpb.New(time.Hour), StoresFailures: true, InFlight: durationpb.New(time.Minute)}
	d.Contract.LookUp = &oncewardv1.LookupRules{Authoritative: true, SettleTime: durationpb.New(time.Minute), NegativeReads: 3, ReadGap: durationpb.New(2 * time.Second)}
	d.Spending = &oncewardv1.Spending{Amount: "args.points", Currency: "'PTS'", Counterparty: "args.customer"}
	d.Intents = []*oncewardv1.Intent{{Name: "order_points", Parts: []*oncewardv1.KeyPart{{Name: "order", From: "arguments.order_id"}}, Quiet: durationpb.New(time.Hour)}}
	d.SensitiveArguments, d.SensitiveReceiptFields, d.TokenAudience = []string{"note"}, []string{"balance"}, "https://loyalty.internal"
	d.Contract.LateLanding, d.Contract.EventWait = durationpb.New(10*time.Minute), durationpb.New(5*time.Minute)
	return d
}

func describing(types ...*oncewardv1.ActionTypeDescription) *peer {
	return &peer{describe: func() *oncewardv1.DescribeResponse { return &oncewardv1.DescribeResponse{ActionTypes: types} }}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	blind := description()
	blind.Name, blind.CanLookUp = "loyalty.note.add", false
	address := serve(t, describing(full(), blind))
	protection := actions.Protection{Failures: 3}
	adapters, err := connect(t, Options{Address: address, Protection: protection, TokenAudience: "loyalty"}).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := actions.Spec{
		Type: "loyalty.points.grant", Version: "3", Description: "Grant points.", Owner: "loyalty", Risk: actions.RiskMedium,
		Schema: []byte(`{"type":"object"}`), Key: []actions.KeyPart{{Name: "order", From: "arguments.order_id"}},
		HashKey: true, AdvisoryArgs: []string{"note"}, RequiresApproval: true, ApprovalTTL: time.Hour,
		Contract: actions.Contract{
			Provider: "loyalty", Version: "7",
			Keys:        actions.KeyRules{Honoured: true, MaxLength: 64, Window: 24 * time.Hour, Margin: time.Hour, StoresFailures: true, InFlight: time.Minute},
			Lookup:      actions.LookupRules{Authoritative: true, SettleTime: time.Minute, NegativeReads: 3, ReadGap: 2 * time.Second},
			LateLanding: 10 * time.Minute, EventWait: 5 * time.Minute, Protection: protection,
		},
		Spending: actions.Spending{Amount: "args.points", Currency: "'PTS'", Counterparty: "args.customer"},
		Intents: []actions.Intent{{
			Name: "order_points", Parts: []actions.KeyPart{{Name: "order", From: "arguments.order_id"}}, Quiet: time.Hour,
		}},
		SensitiveArgs: []string{"note"}, SensitiveReceipt: []string{"balance"}, TokenAudience: "https://loyalty.internal",
		Timeout: 7 * time.Second, MaxAttempts: 4, MaxResolves: 9, Window: 48 * time.Hour, ExpiredKey: actions.Reuse,
	}
	if got := adapters[0].Spec(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := adapters[1].Spec().TokenAudience; got != "loyalty" {
		t.Errorf("an action type without an audience has %q, want the installation's", got)
	}
	if len(adapters) != 2 || !canLookUp(adapters[0]) || canLookUp(adapters[1]) {
		t.Errorf("got %d adapters; the first alone can look up", len(adapters))
	}
	for _, a := range adapters {
		if _, ok := a.(actions.Renderer); !ok {
			t.Errorf("%s cannot render", a.Spec().Type)
		}
	}
}

// TestSpecIsWhole fails when a Spec gains a field that no description can set.
func TestSpecIsWhole(t *testing.T) {
	t.Parallel()
	spec, err := specOf(full())
	if err != nil {
		t.Fatal(err)
	}
	spec = Options{Protection: actions.Protection{Failures: 1}}.installed(spec)
	for _, v := range []any{spec, spec.Contract, spec.Contract.Keys, spec.Contract.Lookup} {
		s := reflect.ValueOf(v)
		for i := range s.NumField() {
			if s.Field(i).IsZero() {
				t.Errorf("%s.%s cannot be described", s.Type(), s.Type().Field(i).Name)
			}
		}
	}
}

func TestDescriptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	future := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
	for name, tt := range map[string]struct {
		change func(*oncewardv1.ActionTypeDescription)
		want   string
	}{
		"a name":                {func(d *oncewardv1.ActionTypeDescription) { d.Name = "Grant" }, "dotted lower-case words"},
		"no version":            {func(d *oncewardv1.ActionTypeDescription) { d.Version = "" }, "version is empty"},
		"a version of a novel":  {func(d *oncewardv1.ActionTypeDescription) { d.Version = strings.Repeat("1", 256) }, "version: want one line"},
		"no contract":           {func(d *oncewardv1.ActionTypeDescription) { d.Contract = nil }, "provider and version are required"},
		"no schema":             {func(d *oncewardv1.ActionTypeDescription) { d.ArgumentsSchemaJson = "" }, "schema"},
		"a schema that is none": {func(d *oncewardv1.ActionTypeDescription) { d.ArgumentsSchemaJson = `{"type":7}` }, "schema"},
		"a key part":            {func(d *oncewardv1.ActionTypeDescription) { d.KeyRecipe[0].From = "prompt" }, "key part order"},
		"a risk":                {func(d *oncewardv1.ActionTypeDescription) { d.Risk = 9 }, "risk: a value that this Onceward does not know"},
		"an expired key":        {func(d *oncewardv1.ActionTypeDescription) { d.ExpiredKey = 9 }, "expired_key: a value"},
		"a duration": {func(d *oncewardv1.ActionTypeDescription) {
			d.AttemptTimeout = &durationpb.Duration{Seconds: 1, Nanos: -1}
		}, "attempt_timeout: not a valid duration"},
		"an amount of nothing": {func(d *oncewardv1.ActionTypeDescription) { d.Spending = &oncewardv1.Spending{Amount: "args.points"} }, "needs a currency"},
		"an amount that is no expression": {func(d *oncewardv1.ActionTypeDescription) {
			d.Spending = &oncewardv1.Spending{Amount: "arg.points", Currency: "'PTS'"}
		}, `spending.amount: at character 1: there is no "arg" here`},
		"an intent of a run": {func(d *oncewardv1.ActionTypeDescription) {
			d.Intents = []*oncewardv1.Intent{{Name: "a", Parts: []*oncewardv1.KeyPart{{Name: "run", From: "run"}}}}
		}, "want arguments.<path>"},
		"a quiet period": {func(d *oncewardv1.ActionTypeDescription) {
			d.Intents = []*oncewardv1.Intent{{Name: "a", Quiet: &durationpb.Duration{Seconds: 1, Nanos: -1}}}
		}, "intents[0].quiet: not a valid duration"},
		"a negative duration": {func(d *oncewardv1.ActionTypeDescription) { d.AttemptTimeout = durationpb.New(-1) }, "timeout is negative"},
		"negative length": {func(d *oncewardv1.ActionTypeDescription) { d.Contract.Keys = &oncewardv1.KeyRules{MaxLength: -1} },
			"contract.keys.max_length is negative"},
		"rules for no look-up": {func(d *oncewardv1.ActionTypeDescription) {
			d.CanLookUp, d.Contract.LookUp = false, &oncewardv1.LookupRules{Authoritative: true}
		}, "who would look?"},
		"a field of a newer contract": {func(d *oncewardv1.ActionTypeDescription) { d.ProtoReflect().SetUnknown(future) }, "?: a field"},
		"such a field further in": {func(d *oncewardv1.ActionTypeDescription) { d.KeyRecipe[0].ProtoReflect().SetUnknown(future) },
			"key_recipe.?: a field"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := description()
			tt.change(d)
			c := connect(t, Options{Address: "127.0.0.1:1"})
			_, err := c.adapters(&oncewardv1.DescribeResponse{ActionTypes: []*oncewardv1.ActionTypeDescription{d}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	c := connect(t, Options{Address: "127.0.0.1:1"})
	unknown := &oncewardv1.DescribeResponse{ActionTypes: []*oncewardv1.ActionTypeDescription{description()}}
	unknown.ProtoReflect().SetUnknown(future)
	for name, answer := range map[string]*oncewardv1.DescribeResponse{
		"nothing": {}, "a type twice": {ActionTypes: []*oncewardv1.ActionTypeDescription{description(), description()}},
		"too many": {ActionTypes: make([]*oncewardv1.ActionTypeDescription, maxActionTypes+1)}, "a field of a newer contract": unknown,
	} {
		if _, err := c.adapters(answer); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestDescribeAgain: under the same version everything stays, or the new
// description is refused.
func TestDescribeAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*oncewardv1.ActionTypeDescription)
		want   string // named in the error; "" where the change is allowed
	}{
		"nothing":                {func(*oncewardv1.ActionTypeDescription) {}, ""},
		"the audience of tokens": {func(d *oncewardv1.ActionTypeDescription) { d.TokenAudience = "loyalty" }, ""},
		"the spending":           {func(d *oncewardv1.ActionTypeDescription) { d.Spending.Amount = "args.points * 2" }, "Spending.Amount"},
		"the intents":            {func(d *oncewardv1.ActionTypeDescription) { d.Intents = nil }, "Intents"},
		"the marks":              {func(d *oncewardv1.ActionTypeDescription) { d.SensitiveArguments = nil }, "SensitiveArgs"},
		"a default said aloud":   {func(d *oncewardv1.ActionTypeDescription) { d.Contract.LookUp.NegativeReads = 3 }, ""},
		"a new version":          {func(d *oncewardv1.ActionTypeDescription) { d.Version, d.HashKey = "4", false }, ""},
		"a new contract version": {func(d *oncewardv1.ActionTypeDescription) { d.Contract.Version, d.HashKey = "8", false }, ""},
		"another name":           {func(d *oncewardv1.ActionTypeDescription) { d.Name, d.HashKey = "loyalty.points.take", false }, ""},
		"the schema": {func(d *oncewardv1.ActionTypeDescription) {
			d.ArgumentsSchemaJson = `{"type":"object","maxProperties":1}`
		}, "Schema"},
		"the words for planners":   {func(d *oncewardv1.ActionTypeDescription) { d.Description = "Free points!" }, "Description"},
		"the key recipe":           {func(d *oncewardv1.ActionTypeDescription) { d.KeyRecipe[0].From = "run" }, "Key"},
		"the approval":             {func(d *oncewardv1.ActionTypeDescription) { d.RequiresApproval = false }, "RequiresApproval"},
		"the key window":           {func(d *oncewardv1.ActionTypeDescription) { d.Contract.Keys.Window.Seconds++ }, "Contract.Keys.Window"},
		"the look-up's authority":  {func(d *oncewardv1.ActionTypeDescription) { d.Contract.LookUp.Authoritative = false }, "Contract.Lookup.Authoritative"},
		"the look-up":              {func(d *oncewardv1.ActionTypeDescription) { d.CanLookUp, d.Contract.LookUp = false, nil }, "can look up"},
		"the timeout":              {func(d *oncewardv1.ActionTypeDescription) { d.AttemptTimeout = nil }, "Timeout"},
		"what an expired key does": {func(d *oncewardv1.ActionTypeDescription) { d.ExpiredKey = oncewardv1.ExpiredKey_EXPIRED_KEY_REJECT }, "ExpiredKey"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Pointer[oncewardv1.ActionTypeDescription]
			now.Store(full())
			address := serve(t, &peer{describe: func() *oncewardv1.DescribeResponse {
				return &oncewardv1.DescribeResponse{ActionTypes: []*oncewardv1.ActionTypeDescription{now.Load()}}
			}})
			c := connect(t, Options{Address: address})
			if _, err := c.Describe(t.Context()); err != nil {
				t.Fatal(err)
			}
			changed := full()
			tt.change(changed)
			now.Store(changed)
			_, err := c.Describe(t.Context())
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (!errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want ErrChanged that names %s", err, tt.want)
			}
			if tt.want == "" {
				return
			}
			now.Store(full()) // what was refused is not what the next one is compared with
			if _, err := c.Describe(t.Context()); err != nil {
				t.Errorf("the former description: %v", err)
			}
		})
	}
}
