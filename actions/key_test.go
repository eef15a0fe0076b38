package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// invoiceSpec is an action type with the recipe that the design shows.
func invoiceSpec() Spec {
	return Spec{Type: "mail.invoice.send", Key: []KeyPart{
		{Name: "tenant", From: "tenant"}, {Name: "run", From: "run"}, {Name: "step", From: "step"},
		{Name: "invoice", From: "arguments.invoice.id"}, {Name: "revision", From: "arguments.revision"},
	}}
}

func invoiceInput(t testing.TB) KeyInput {
	return KeyInput{
		Tenant: "acme", Run: "run_8f2", Step: "email_invoice",
		Arguments: parse(t, `{"invoice":{"id":"inv_123"},"revision":4.0}`),
	}
}

func TestComposeKey(t *testing.T) {
	const recipeText = "tenant:acme|run:run_8f2|step:email_invoice|invoice:inv_123|revision:4"
	runStep := Spec{Type: "payments.refund.create"}
	sha := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	long := strings.Repeat("x", MaxKeyLength)
	for _, c := range []struct {
		name   string
		spec   Spec
		change func(*Spec, *KeyInput)
		text   string
		source KeySource
	}{
		{"recipe", invoiceSpec(), nil, recipeText, KeyFromRecipe},
		{"caller before recipe", invoiceSpec(), func(_ *Spec, in *KeyInput) { in.CallerKey = "k" }, "k", KeyFromCaller},
		{"caller of full length", runStep, func(_ *Spec, in *KeyInput) { in.CallerKey = long }, long, KeyFromCaller},
		{"caller, every character", runStep, func(_ *Spec, in *KeyInput) { in.CallerKey = `!~|:%"\` }, `!~|:%"\`, KeyFromCaller},
		{"caller is not altered", invoiceSpec(), func(s *Spec, in *KeyInput) { in.CallerKey, in.DistinctFrom, s.HashKey = "k", "op", true },
			"k", KeyFromCaller},
		{"run and step", runStep, func(_ *Spec, in *KeyInput) { in.Step = "refund" },
			"tenant:acme|action:payments.refund.create|run:run_8f2|step:refund", KeyFromRunStep},
		{"distinct recipe", invoiceSpec(), func(_ *Spec, in *KeyInput) { in.DistinctFrom = "0197-a" },
			recipeText + "|distinct:0197-a", KeyFromRecipe},
		{"distinct run and step", runStep, func(_ *Spec, in *KeyInput) { in.DistinctFrom = "0197-a" },
			"tenant:acme|action:payments.refund.create|run:run_8f2|step:email_invoice|distinct:0197-a", KeyFromRunStep},
		{"hashed", invoiceSpec(), func(s *Spec, _ *KeyInput) { s.HashKey = true }, sha(recipeText), KeyFromRecipe},
		{"too long", runStep, func(_ *Spec, in *KeyInput) { in.Step = long },
			sha("tenant:acme|action:payments.refund.create|run:run_8f2|step:" + long), KeyFromRunStep},
		{"escaped", runStep, func(_ *Spec, in *KeyInput) { in.Run, in.Step = "a|step:b", "50% é\x00\xff" },
			"tenant:acme|action:payments.refund.create|run:a%7Cstep%3Ab|step:50%25%20%C3%A9%00%FF", KeyFromRunStep},
		{"poses as a hash", Spec{Key: []KeyPart{{Name: "sha256", From: "run"}}}, nil, sha("sha256:run_8f2"), KeyFromRecipe},
		{"bool and action", Spec{Type: "a.b", Key: []KeyPart{{Name: "a", From: "action"}, {Name: "final", From: "arguments.final"}}},
			func(_ *Spec, in *KeyInput) { in.Arguments = parse(t, `{"final":false}`) }, "a:a.b|final:false", KeyFromRecipe},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := invoiceInput(t)
			if c.change != nil {
				c.change(&c.spec, &in)
			}
			key, err := ComposeKey(c.spec, in)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Key{Text: c.text, Source: c.source}); key != want {
				t.Errorf("key is %+v (%s), want %+v", key, key.Source, want)
			}
		})
	}
}

// TestKeyOfFullLength checks the edge between shown and hashed keys.
func TestKeyOfFullLength(t *testing.T) {
	spec := Spec{Key: []KeyPart{{Name: "run", From: "run"}}}
	for length, hashed := range map[int]bool{MaxKeyLength: false, MaxKeyLength + 1: true} {
		key, err := ComposeKey(spec, KeyInput{Run: strings.Repeat("r", length-len("run:"))})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(key.Text, "sha256:"); got != hashed || len(key.Text) > MaxKeyLength {
			t.Errorf("a text of %d characters became %s", length, key.Text)
		}
	}
}

func TestComposeKeyRefuses(t *testing.T) {
	runStep := Spec{Type: "a.b"}
	for _, c := range []struct {
		name   string
		spec   Spec
		change func(*KeyInput)
		want   []string
	}{
		{"nothing", runStep, func(in *KeyInput) { *in = KeyInput{Tenant: "acme"} }, []string{"idempotency_key: KEY_REQUIRED"}},
		{"no step", runStep, func(in *KeyInput) { in.Step = "" }, []string{"idempotency_key: KEY_REQUIRED"}},
		{"no run", runStep, func(in *KeyInput) { in.Run = "" }, []string{"idempotency_key: KEY_REQUIRED"}},
		{"no tenant", runStep, func(in *KeyInput) { in.Tenant = "" }, []string{"tenant: KEY_PART_MISSING"}},
		{"caller too long", runStep, func(in *KeyInput) { in.CallerKey = strings.Repeat("x", MaxKeyLength+1) }, []string{"idempotency_key: KEY_INVALID"}},
		{"caller with a space", runStep, func(in *KeyInput) { in.CallerKey = "a b" }, []string{"idempotency_key: KEY_INVALID"}},
		{"caller with DEL", runStep, func(in *KeyInput) { in.CallerKey = "a\x7f" }, []string{"idempotency_key: KEY_INVALID"}},
		{"caller with a line end", runStep, func(in *KeyInput) { in.CallerKey = "a\n" }, []string{"idempotency_key: KEY_INVALID"}},
		{"caller with NFC", runStep, func(in *KeyInput) { in.CallerKey = "caf\u00e9" }, []string{"idempotency_key: KEY_INVALID"}},
		{"caller with NFD", runStep, func(in *KeyInput) { in.CallerKey = "cafe\u0301" }, []string{"idempotency_key: KEY_INVALID"}},
		{"caller with zero width", runStep, func(in *KeyInput) { in.CallerKey = "a\u200bb" }, []string{"idempotency_key: KEY_INVALID"}},
		{"recipe, all missing", invoiceSpec(), func(in *KeyInput) { *in = KeyInput{Tenant: "acme"} },
			[]string{"run_id: KEY_PART_MISSING", "step_id: KEY_PART_MISSING", "invoice.id: KEY_PART_MISSING", "revision: KEY_PART_MISSING"}},
		{"recipe does not fall back", invoiceSpec(), func(in *KeyInput) { in.Arguments = parse(t, `{"revision":1}`) }, []string{"invoice.id: KEY_PART_MISSING"}},
		{"null", invoiceSpec(), func(in *KeyInput) { in.Arguments = parse(t, `{"invoice":{"id":"i"},"revision":null}`) }, []string{"revision: KEY_PART_MISSING"}},
		{"list", invoiceSpec(), func(in *KeyInput) { in.Arguments = parse(t, `{"invoice":{"id":"i"},"revision":[1]}`) }, []string{"revision: KEY_PART_MISSING"}},
		{"empty text", invoiceSpec(), func(in *KeyInput) { in.Arguments = parse(t, `{"invoice":{"id":""},"revision":1}`) }, []string{"invoice.id: KEY_PART_MISSING"}},
		{"unknown source", Spec{Key: []KeyPart{{Name: "x", From: "prompt"}}}, func(*KeyInput) {}, []string{"prompt: KEY_PART_MISSING"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := invoiceInput(t)
			c.change(&in)
			key, err := ComposeKey(c.spec, in)
			if err == nil {
				t.Fatalf("composed %+v", key)
			}
			if key != (Key{}) {
				t.Errorf("a key came with the error: %+v", key)
			}
			refused(t, err, c.want...)
		})
	}
}

func TestMissingPartIsNamed(t *testing.T) {
	in := invoiceInput(t)
	in.Arguments = parse(t, `{"revision":1}`)
	_, err := ComposeKey(invoiceSpec(), in)
	const want = "arguments refused: invoice.id: is missing, empty or not a single value, " +
		"and the key part invoice comes from it: send it, or an idempotency_key"
	if err == nil || err.Error() != want {
		t.Errorf("error is %v\nwant %s", err, want)
	}
}

// TestParallelKeysDoNotCollide covers report R59: a thousand keys that are
// composed at once. They depend on nothing but their parts.
func TestParallelKeysDoNotCollide(t *testing.T) {
	const n = 1000
	keys := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			in := KeyInput{Tenant: "acme", Run: "run", Step: fmt.Sprint(i)}
			first, err := ComposeKey(Spec{Type: "a.b"}, in)
			again, errAgain := ComposeKey(Spec{Type: "a.b"}, in)
			if err != nil || errAgain != nil || first != again {
				t.Errorf("step %d: %+v (%v), then %+v (%v)", i, first, err, again, errAgain)
			}
			keys[i] = first.Text
		})
	}
	wg.Wait()
	slices.Sort(keys)
	if distinct := len(slices.Compact(keys)); distinct != n {
		t.Errorf("%d distinct keys of %d", distinct, n)
	}
}

// identity is what a composed key must tell apart.
type identity struct{ tenant, run, step, text, distinct string }

func (id identity) key(spec Spec) (Key, error) {
	return ComposeKey(spec, KeyInput{
		Tenant: id.tenant, Run: id.run, Step: id.step, DistinctFrom: id.distinct,
		Arguments: newArguments(map[string]any{"text": id.text}, 0),
	})
}

// TestComposingIsInjective draws parts from an alphabet that is most likely to
// confuse, and checks that equal keys come from equal identities only.
func TestComposingIsInjective(t *testing.T) {
	part := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("a|:%7C3é ")), 1, 4, -1),
		rapid.SampledFrom([]string{"a|step:b", "a%7Cstep%3Ab", "x|distinct:y", "sha256:0", strings.Repeat("l", 300)}),
		rapid.String().Filter(func(s string) bool { return s != "" }),
	)
	specs := []Spec{
		{Type: "a.b"},
		{Type: "a.b", HashKey: true},
		{Type: "a.b", Key: []KeyPart{{Name: "tenant", From: "tenant"}, {Name: "run", From: "run"}, {Name: "step", From: "step"}, {Name: "text", From: "arguments.text"}}},
	}
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom(specs).Draw(t, "spec")
		draw := func(label string) identity {
			id := identity{
				tenant: part.Draw(t, label+" tenant"), run: part.Draw(t, label+" run"), step: part.Draw(t, label+" step"),
				distinct: rapid.OneOf(rapid.Just(""), part).Draw(t, label+" distinct"),
			}
			if len(spec.Key) > 0 {
				id.text = part.Draw(t, label+" text")
			}
			return id
		}
		a, b := draw("a"), draw("b")
		keyA, errA := a.key(spec)
		keyB, errB := b.key(spec)
		if errA != nil || errB != nil {
			t.Fatalf("composing: %v, %v", errA, errB)
		}
		if (keyA == keyB) != (a == b) {
			t.Fatalf("%+v composes %s\n%+v composes %s", a, keyA.Text, b, keyB.Text)
		}
		if _, ok := checkCallerKey(keyA.Text); !ok {
			t.Fatalf("composed key %q is no valid key", keyA.Text)
		}
	})
}

// FuzzComposeKey looks for two identities that compose one key, and for
// composed keys that no caller could send back.
func FuzzComposeKey(f *testing.F) {
	f.Add("a|step:b", "c", "a", "b|step:c", "", "")
	f.Add("a", "b|distinct:c", "a", "b", "", "c")
	f.Add("%7C", "x", "|", "x", "d", "d")
	f.Add("\xff", "\x00", "é", strings.Repeat("x", 300), "", "")
	f.Fuzz(func(t *testing.T, runA, stepA, runB, stepB, distinctA, distinctB string) {
		if runA == "" || stepA == "" || runB == "" || stepB == "" {
			return // no key without a run and a step
		}
		a := identity{tenant: "acme", run: runA, step: stepA, distinct: distinctA}
		b := identity{tenant: "acme", run: runB, step: stepB, distinct: distinctB}
		keyA, errA := a.key(Spec{Type: "a.b"})
		keyB, errB := b.key(Spec{Type: "a.b"})
		if errA != nil || errB != nil {
			t.Fatalf("composing: %v, %v", errA, errB)
		}
		if (keyA == keyB) != (a == b) {
			t.Fatalf("%+q composes %s\n%+q composes %s", a, keyA.Text, b, keyB.Text)
		}
		if v, ok := checkCallerKey(keyA.Text); !ok {
			t.Fatalf("composed key %q: %s", keyA.Text, v.Message)
		}
	})
}

func TestCheckKeySource(t *testing.T) {
	for _, from := range []string{"tenant", "run", "step", "action", "arguments.a", "arguments.a.b-c.0.D_e"} {
		if err := checkKeySource(from); err != nil {
			t.Errorf("%q: %v", from, err)
		}
	}
	for _, from := range []string{
		"", "Tenant", "prompt", "time", "arguments", "arguments.", "arguments.a.", "arguments..a", "arguments.a b",
		"arguments.é", "arguments.a|b", "arguments.a[0]", "tenant.x", " tenant", "args.a",
	} {
		if err := checkKeySource(from); err == nil {
			t.Errorf("%q is accepted", from)
		}
	}
}

func TestKeySourceNames(t *testing.T) {
	for source, want := range map[KeySource]string{
		KeyFromNowhere: "none", KeyFromCaller: "caller", KeyFromRecipe: "recipe", KeyFromRunStep: "run_step", 9: "invalid",
	} {
		if got := source.String(); got != want {
			t.Errorf("source %d is %q, want %q", source, got, want)
		}
	}
}

func BenchmarkComposeKey(b *testing.B) {
	in := invoiceInput(b)
	spec := invoiceSpec()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ComposeKey(spec, in); err != nil {
			b.Fatal(err)
		}
	}
}
