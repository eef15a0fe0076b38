package actions

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// parse is ParseArguments for input that must be good.
func parse(t testing.TB, text string) Arguments {
	t.Helper()
	args, err := ParseArguments([]byte(text))
	if err != nil {
		t.Fatalf("ParseArguments(%.200q): %v", text, err)
	}
	return args
}

// refused checks that err is an *ArgumentsError with exactly these
// "field: REASON" violations.
func refused(t testing.TB, err error, want ...string) {
	t.Helper()
	var bad *ArgumentsError
	if !errors.As(err, &bad) {
		t.Fatalf("error is %T (%v), want *ArgumentsError with %q", err, err, want)
	}
	var got []string
	for _, v := range bad.Violations {
		got = append(got, v.Field+": "+v.Reason)
		if v.Message == "" {
			t.Errorf("violation of %q has no message", v.Field)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("violations are %q, want %q\n%v", got, want, err)
	}
}

// TestSameRequestHashesAlike covers report R15: order, white space, escapes
// and number spellings must not make another request.
func TestSameRequestHashesAlike(t *testing.T) {
	for name, spellings := range map[string][]string{
		"empty":       {``, ` `, `{}`, " {\n}\t"},
		"order":       {`{"a":1,"b":{"x":2,"y":3}}`, `{"b":{"y":3,"x":2},"a":1}`},
		"white space": {`{"a":[1,{"b":null}]}`, "\r\n{ \"a\" :\t[ 1 , { \"b\" : null } ] }\n"},
		"slash":       {`{"u":"a/b"}`, `{"u":"a\/b"}`, `{"u":"a\u002fb"}`, `{"u":"a\u002Fb"}`},
		"letters":     {`{"A":"Aé😀"}`, `{"\u0041":"\u0041\u00e9\ud83d\ude00"}`, `{"\u0041":"A\u00E9\uD83D\uDE00"}`},
		"control":     {`{"a":"\n\u0000"}`, `{"a":"\u000a\u0000"}`, `{"a":"\u000A\u0000"}`},
		"one":         {`{"n":1}`, `{"n":1.0}`, `{"n":1e0}`, `{"n":1E+0}`, `{"n":1.000e-0}`, `{"n":10e-1}`, `{"n":0.1e1}`},
		"hundred":     {`{"n":100}`, `{"n":1e2}`, `{"n":1E+02}`, `{"n":100.0}`, `{"n":0.01e4}`, `{"n":1000000e-4}`},
		"zero":        {`{"n":0}`, `{"n":-0}`, `{"n":0.0}`, `{"n":-0.0}`, `{"n":0e0}`, `{"n":-0e-99999999999}`, `{"n":0e99999999999}`},
		"cents":       {`{"n":12.5}`, `{"n":12.50}`, `{"n":1.25e1}`, `{"n":125e-1}`, `{"n":0.0125E3}`},
		"small":       {`{"n":1e-7}`, `{"n":0.0000001}`, `{"n":10.0e-8}`},
		"big":         {`{"n":1e30}`, `{"n":1000000000000000000000000000000}`, `{"n":1.0E+30}`},
		"past double": {`{"n":9007199254740993}`, `{"n":9007199254740993.0}`, `{"n":9007199254740993e0}`, `{"n":900719925474099300e-2}`},
		"far point":   {`{"n":1}`, `{"n":0.` + strings.Repeat("0", 999) + `1e1000}`, `{"n":1` + strings.Repeat("0", 999) + `e-999}`},
	} {
		t.Run(name, func(t *testing.T) {
			first := parse(t, spellings[0])
			for _, text := range spellings[1:] {
				other := parse(t, text)
				if other.Hash() != first.Hash() || string(other.JSON()) != string(first.JSON()) {
					t.Errorf("%.80s has the canonical form %.80s, but %.80s has %.80s", text, other.JSON(), spellings[0], first.JSON())
				}
			}
		})
	}
}

// TestDifferentRequestsHashApart covers report R19 and numbers that a double
// would merge.
func TestDifferentRequestsHashApart(t *testing.T) {
	texts := []string{
		`{}`, `{"a":null}`, `{"a":false}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`, `{"a":0}`, `{"a":"0"}`, `{"a":[null]}`,
		`{"name":"Ren\u00e9"}`, `{"name":"Rene\u0301"}`, // NFC and NFD
		`{"Ren\u00e9":1}`, `{"Rene\u0301":1}`,
		`{"name":"ab"}`, `{"name":"a\u200bb"}`, `{"name":"a b"}`, `{"name":"a\u00a0b"}`, `{"name":"AB"}`, `{"Name":"ab"}`,
		`{"n":9007199254740992}`, `{"n":9007199254740993}`, `{"n":9007199254740994}`, `{"n":-9007199254740993}`,
		`{"n":1000000000000000000000000000000}`, `{"n":1000000000000000000000000000001}`,
		`{"n":0.1}`, `{"n":0.10000000000000002}`, `{"n":-0.1}`, `{"n":1}`, `{"n":[1]}`, `{"n":[1,1]}`, `{"n":[[1],1]}`,
	}
	seen := map[[32]byte]string{}
	for _, text := range texts {
		h := parse(t, text).Hash()
		if before, ok := seen[h]; ok {
			t.Errorf("%s and %s hash alike", before, text)
		}
		seen[h] = text
	}
}

func TestCanonicalForm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/<>&"}`, `{"a":"€$\u000f\nA'B\"\\\\\"/<>&","b":1}`},
		// The order of RFC 8785, section 3.2.3: U+1F600 stands before U+FB33.
		{`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`,
			`{"\r":2,"1":4,"` + "\u0080" + `":6,"ö":7,"€":1,"😀":5,"` + "\ufb33" + `":3}`},
		{`{"a":[1e21,1e-7,123456789.5,5e-324,1.7976931348623157e308,4.35,0.000001]}`,
			`{"a":[1000000000000000000000,1e-7,123456789.5,5e-324,17976931348623157` + strings.Repeat("0", 292) + `,4.35,0.000001]}`},
		{`{"a":"\u2028\u007f"}`, "{\"a\":\"\u2028\u007f\"}"},
	} {
		if got := string(parse(t, c.in).JSON()); got != c.want {
			t.Errorf("canonical form of %s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
	// The hash is fixed for ever: ledgers hold it.
	h := parse(t, `{"currency":"EUR","amount":1250}`).Hash()
	if got, want := hex.EncodeToString(h[:]), "eeee78fb20f8fbb03fb016f376c0389d6be5286bbce3a472be2a2b376b3953d4"; got != want {
		t.Errorf("hash is %s, want %s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, c := range []struct{ name, in, want string }{
		{"duplicate", `{"a":1,"a":1}`, "a: DUPLICATE_KEY"},
		{"duplicate, escaped", `{"o":[0,{"a":1,"\u0061":2}]}`, "o[1].a: DUPLICATE_KEY"},
		{"bad UTF-8", "{\"a\":\"\xff\"}", "a: INVALID_UTF8"},
		{"bad UTF-8 in a name", "{\"a\":{\"\xc3\":1}}", "a: INVALID_UTF8"},
		{"overlong UTF-8", "{\"a\":\"\xc0\x80\"}", "a: INVALID_UTF8"},
		{"raw surrogate", "{\"a\":\"\xed\xa0\x80\"}", "a: INVALID_UTF8"},
		{"lone high surrogate", `{"a":"x\ud83d"}`, "a: INVALID_UTF8"},
		{"lone low surrogate", `{"a":"\uDE00"}`, "a: INVALID_UTF8"},
		{"two high surrogates", `{"a":"\ud83d\ud83d"}`, "a: INVALID_UTF8"},
		{"NaN", `{"a":NaN}`, "a: SYNTAX"},
		{"infinity", `{"a":[1,-Infinity]}`, "a[1]: SYNTAX"},
		{"leading zero", `{"a":01}`, ": SYNTAX"},
		{"plus", `{"a":+1}`, "a: SYNTAX"},
		{"bare point", `{"a":1.}`, "a: SYNTAX"},
		{"cut short", `{"a":[1,{"b":"x`, "a[1].b: SYNTAX"},
		{"comma", `{"a":1,}`, ": SYNTAX"},
		{"two values", `{} {}`, ": SYNTAX"},
		{"trailing text", `{}x`, ": SYNTAX"},
		{"byte order mark", "\ufeff{}", ": SYNTAX"},
		{"NUL", "{\"a\":\"\x00\"}", "a: SYNTAX"},
		{"null", `null`, ": TYPE"},
		{"list", `[]`, ": TYPE"},
		{"text", `"{}"`, ": TYPE"},
		{"too deep", nested(MaxDepth + 1), ": TOO_DEEP"},
		{"much too deep", strings.Repeat(`{"a":[`, 20000), ": TOO_DEEP"},
		{"too long", `{"a":"` + strings.Repeat("x", MaxArgumentsBytes) + `"}`, ": TOO_LARGE"},
		{"grows too long", `{"a":[` + strings.Repeat("1e308,", 1000) + `1]}`, ": TOO_LARGE"},
		{"long number", `{"a":[` + strings.Repeat("9", MaxNumberLength+1) + `]}`, "a[0]: TOO_LARGE"},
		{"huge exponent", `{"a":1e999999999}`, "a: NUMBER_INEXACT"},
		{"exponent beyond int", `{"a":1e99999999999999999999999}`, "a: NUMBER_INEXACT"},
		{"tiny exponent", `{"a":1e-99999999999999999999999}`, "a: NUMBER_INEXACT"},
		{"1e309", `{"a":1e309}`, "a: NUMBER_INEXACT"},
		{"1e400", `{"a":{"b":[0,1e400]}}`, "a.b[1]: NUMBER_INEXACT"},
		{"1e-400", `{"a":1e-400}`, "a: NUMBER_INEXACT"},
		{"long fraction", `{"a":0.1000000000000000055}`, "a: NUMBER_INEXACT"},
		{"17 digits, not the shortest", `{"a":0.10000000000000001}`, "a: NUMBER_INEXACT"},
		{"half a cent past 2^53", `{"a":9007199254740992.5}`, "a: NUMBER_INEXACT"},
		{"subnormal with false digits", `{"a":4.94e-324}`, "a: NUMBER_INEXACT"},
		{"odd names", `{"a.b":{"c\nd":[1e400]}}`, `["a.b"]["c\nd"][0]: NUMBER_INEXACT`},
		{"a name like an index", `{"a":{"0":1e400}}`, `a.0: NUMBER_INEXACT`},
	} {
		t.Run(c.name, func(t *testing.T) {
			args, err := ParseArguments([]byte(c.in))
			if err == nil {
				t.Fatalf("accepted as %.200s", args.JSON())
			}
			refused(t, err, c.want)
			if strings.ContainsAny(err.Error(), "\n\r\x00") {
				t.Errorf("error is not one line: %q", err)
			}
		})
	}
}

func TestParseReportsEveryNumber(t *testing.T) {
	_, err := ParseArguments([]byte(`{"a":1e400,"b":[0.1000000000000000055,1],"c":2}`))
	refused(t, err, "a: NUMBER_INEXACT", "b[0]: NUMBER_INEXACT")

	_, err = ParseArguments([]byte(`{"a":[` + strings.Repeat("1e400,", 1000) + `1]}`))
	var bad *ArgumentsError
	if !errors.As(err, &bad) || len(bad.Violations) != maxViolations {
		t.Errorf("a thousand faults make the error %.300v, want %d violations", err, maxViolations)
	}
}

func TestParseAtTheLimits(t *testing.T) {
	parse(t, strings.Repeat(`{"a":`, MaxDepth)+"1"+strings.Repeat("}", MaxDepth))
	parse(t, `{"a":"`+strings.Repeat("x", MaxArgumentsBytes-len(`{"a":""}`))+`"}`)
	digits := strings.Repeat("9", MaxNumberLength)
	if got, _ := parse(t, `{"n":`+digits+`}`).Text("n"); got != digits {
		t.Errorf("an integer of %d digits did not stay exact", len(digits))
	}
	if got := parse(t, `{"n":1e308}`).JSON(); string(got) != `{"n":1`+strings.Repeat("0", 308)+`}` {
		t.Errorf("1e308 became %s", got)
	}
}

func TestArgumentsAreImmutable(t *testing.T) {
	data := []byte(`{"a":"xyz","l":[1,{"b":2}]}`)
	args, err := ParseArguments(data)
	if err != nil {
		t.Fatal(err)
	}
	before := args.Hash()
	clear(data)
	clear(args.JSON())
	value := args.Value()
	value["l"].([]any)[1].(map[string]any)["b"] = "changed"
	delete(value, "a")
	if got, want := string(args.JSON()), `{"a":"xyz","l":[1,{"b":2}]}`; got != want || args.Hash() != before {
		t.Errorf("arguments became %s", got)
	}
	if got := args.Value(); !reflect.DeepEqual(got, map[string]any{
		"a": "xyz", "l": []any{json.Number("1"), map[string]any{"b": json.Number("2")}},
	}) {
		t.Errorf("value became %#v", got)
	}
}

func TestZeroArguments(t *testing.T) {
	var zero Arguments
	if string(zero.JSON()) != "{}" || zero.Hash() != parse(t, "{}").Hash() {
		t.Errorf("zero value is %s, want {}", zero.JSON())
	}
	if v := zero.Value(); v == nil || len(v) != 0 {
		t.Errorf("value is %#v, want an empty map", v)
	}
	if text, ok := zero.Text("a"); ok {
		t.Errorf("has a text %q", text)
	}
	if zero.IdentityHash([]string{"a"}) != zero.Hash() {
		t.Error("identity differs")
	}
	var into struct{ A int }
	if err := zero.Decode(&into); err != nil {
		t.Error(err)
	}
}

// TestIdentity covers report R17: what an action type calls advisory does not
// count, everything else does.
func TestIdentity(t *testing.T) {
	advisory := []string{"note", "created_at"}
	base := parse(t, `{"amount":5,"note":"please","meta":{"note":"x"}}`)
	for _, c := range []struct {
		in   string
		same bool
	}{
		{`{"amount":5,"note":"could you","meta":{"note":"x"}}`, true},
		{`{"meta":{"note":"x"},"amount":5.0,"created_at":"2026-01-01"}`, true},
		{`{"amount":6,"note":"please","meta":{"note":"x"}}`, false},
		{`{"amount":5,"note":"please","meta":{"note":"y"}}`, false}, // only top-level arguments
		{`{"amount":5,"note":"please","meta":{"note":"x"},"more":1}`, false},
	} {
		got := parse(t, c.in)
		if same := got.IdentityHash(advisory) == base.IdentityHash(advisory); same != c.same {
			t.Errorf("identity of %s equal: %t, want %t", c.in, same, c.same)
		}
	}
	identity := base.Identity(advisory)
	if got, want := string(identity.JSON()), `{"amount":5,"meta":{"note":"x"}}`; got != want {
		t.Errorf("identity is %s, want %s", got, want)
	}
	if identity.Hash() != base.IdentityHash(advisory) {
		t.Error("Identity and IdentityHash disagree")
	}
	if got, want := string(base.JSON()), `{"amount":5,"meta":{"note":"x"},"note":"please"}`; got != want {
		t.Errorf("arguments became %s", got)
	}
	if base.IdentityHash(nil) != base.Hash() {
		t.Error("with nothing advisory, identity is not the whole")
	}
}

func TestText(t *testing.T) {
	args := parse(t, `{"s":"x","e":"","n":1.50,"big":1e20,"t":true,"f":false,"null":null,"o":{"p":{"q":"deep"}},"l":["a",{"b":2}],"x.y":"dot"}`)
	for _, c := range []struct {
		path, want string
		ok         bool
	}{
		{"s", "x", true}, {"e", "", true}, {"n", "1.5", true}, {"big", "100000000000000000000", true},
		{"t", "true", true}, {"f", "false", true}, {"o.p.q", "deep", true}, {"l.0", "a", true}, {"l.1.b", "2", true},
		{"null", "", false}, {"o", "", false}, {"o.p", "", false}, {"l", "", false}, {"missing", "", false},
		{"s.x", "", false}, {"o.x.q", "", false}, {"l.2", "", false}, {"l.-1", "", false}, {"l.00", "", false},
		{"l.+0", "", false}, {"", "", false}, {"o.", "", false}, {"x.y", "", false},
	} {
		if got, ok := args.Text(c.path); got != c.want || ok != c.ok {
			t.Errorf("Text(%q) is %q, %t; want %q, %t", c.path, got, ok, c.want, c.ok)
		}
	}
}

func TestDecode(t *testing.T) {
	type line struct {
		SKU string `json:"sku"`
	}
	var got struct {
		ID     int64       `json:"id"`
		Big    *big.Int    `json:"big"`
		Price  json.Number `json:"price"`
		Ratio  float64     `json:"ratio"`
		Half   float32     `json:"half"`
		Lines  []line      `json:"lines"`
		Any    any         `json:"any"`
		Absent *string     `json:"absent"`
		Note   string      `json:"note"`
	}
	args := parse(t, `{"id":9007199254740993,"big":123456789012345678901234567890,"price":1.10,"ratio":0.1,"half":0.1,
		"lines":[{"sku":"a"}],"any":{"n":[9007199254740993,0.5,"x",null]},"NOTE":"other case","extra":1}`)
	if err := args.Decode(&got); err != nil {
		t.Fatal(err)
	}
	wantAny := map[string]any{"n": []any{json.Number("9007199254740993"), json.Number("0.5"), "x", nil}}
	if got.ID != 9007199254740993 || got.Big.String() != "123456789012345678901234567890" || got.Price != "1.1" ||
		got.Ratio != 0.1 || got.Half != 0.1 || len(got.Lines) != 1 || got.Lines[0].SKU != "a" ||
		!reflect.DeepEqual(got.Any, wantAny) || got.Absent != nil || got.Note != "" {
		t.Errorf("decoded %+v", got)
	}
}

func TestDecodeRefusesWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		in, want string
		into     any
	}{
		{`{"A":{"N":[1,300]}}`, "A.N[1]: TYPE", &struct{ A struct{ N []int8 } }{}},
		{`{"F":9007199254740993}`, "F: TYPE", &struct{ F float64 }{}},
		{`{"F":16777217}`, "F: TYPE", &struct{ F float32 }{}},
		{`{"F":0.123456789}`, "F: TYPE", &struct{ F float32 }{}},
		{`{"I":1.5}`, "I: TYPE", &struct{ I int }{}},
		{`{"S":"secret"}`, "S: TYPE", &struct{ S int }{}},
		{`{"S":"secret"}`, "S: TYPE", &struct{ S float64 }{}},
		{`{"S":"secret"}`, "S: TYPE", &struct{ S json.Number }{}},
		{`{"S":1}`, "S: TYPE", &struct{ S string }{}},
	} {
		err := parse(t, c.in).Decode(c.into)
		if err == nil {
			t.Errorf("%s went into %T as %+v", c.in, c.into, c.into)
			continue
		}
		refused(t, err, c.want)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("error repeats the argument: %v", err)
		}
	}
	for _, into := range []any{nil, struct{}{}, (*struct{})(nil)} {
		if err := parse(t, `{}`).Decode(into); err == nil || errors.As(err, new(*ArgumentsError)) {
			t.Errorf("decoding into %#v: error is %v, want one that is no *ArgumentsError", into, err)
		}
	}
}

func TestPrintingArgumentsShowsNoContent(t *testing.T) {
	args := parse(t, `{"iban":"DE02120300000000202051"}`)
	call := Call{Arguments: args}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		for _, v := range []any{args, &args, call} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "DE02") || strings.Contains(text, "iban") || strings.Contains(text, "6962616e") {
				t.Errorf("%s of %T shows %s", format, v, text)
			}
		}
	}
}

func TestArgumentsErrorIsOneLine(t *testing.T) {
	err := &ArgumentsError{Violations: []Violation{
		{Field: "a", Reason: ReasonRequired, Message: "is required"},
		{Reason: ReasonType, Message: "must be a JSON object"},
	}}
	if got, want := err.Error(), "arguments refused: a: is required; must be a JSON object"; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
}

func BenchmarkParseAndHash(b *testing.B) {
	small := []byte(`{"payment_id":"pay_8f2c11","amount":{"value":1250,"currency":"EUR"},"reason":"duplicate","note":"asked twice","notify":true}`)
	large := []byte(`{"lines":[` + strings.TrimSuffix(strings.Repeat(`{"sku":"A-1","quantity":2,"price":12.50},`, 200), ",") + `]}`)
	for name, data := range map[string][]byte{"small": small, "large": large} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				args, err := ParseArguments(data)
				if err != nil {
					b.Fatal(err)
				}
				_ = args.Hash()
			}
		})
	}
}

// Long arguments have texts of their own, short ones parts of the whole: they read
// alike, and neither changes with the bytes that they came from.
func TestLongAndShortArgumentsReadAlike(t *testing.T) {
	text := `{"a":"x","b\n":["\u00e9",1.50,"",{"c":12345678901234567890}],"d":"é"}`
	want := `{"a":"x","b\n":["é",1.5,"",{"c":12345678901234567890}],"d":"é"}`
	for _, padding := range []int{0, maxShared} {
		data := []byte(text + strings.Repeat(" ", padding))
		args, err := ParseArguments(data)
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		again := newArguments(args.Value(), 0)
		if got := string(args.JSON()); got != want || string(again.JSON()) != want || string(args.AppendJSON([]byte("x"))) != "x"+want {
			t.Errorf("with %d more bytes: %s", padding, got)
		}
	}
}
