package actions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestCanonicalNumber(t *testing.T) {
	for _, c := range []struct{ in, want string }{ // want empty: refused
		{"0", "0"}, {"-0", "0"}, {"-0.0e5", "0"}, {"0e99999999999999999999", "0"}, {"-0e-99999999999999999999", "0"},
		{"-1", "-1"}, {"-1.0", "-1"}, {"-1e2", "-100"}, {"123e-2", "1.23"}, {"0.5E+1", "5"}, {"5e00000000000000000001", "50"},
		{"9007199254740993", "9007199254740993"}, {"-9007199254740993.000", "-9007199254740993"}, {"1e21", "1000000000000000000000"},
		{"1e308", "1" + strings.Repeat("0", 308)}, {"1e309", ""}, {"-1e309", ""},
		{strings.Repeat("9", 400), strings.Repeat("9", 400)}, {strings.Repeat("9", 400) + ".0", ""}, {strings.Repeat("9", 309) + "e0", strings.Repeat("9", 309)},
		{"0.1", "0.1"}, {"0.10", "0.1"}, {"1e-6", "0.000001"}, {"1e-7", "1e-7"}, {"-0.00000012", "-1.2e-7"},
		{"0.1000000000000000055", ""}, {"0.10000000000000001", ""}, {"0.30000000000000004", "0.30000000000000004"},
		{"5e-324", "5e-324"}, {"4e-324", ""}, {"2e-324", ""}, {"1e-400", ""}, {"1e-99999999999999999999", ""}, {"1e99999999999999999999", ""},
		{"2.2250738585072014e-308", "2.2250738585072014e-308"}, {"2.225073858507201e-308", "2.225073858507201e-308"}, {"2.2250738585072011e-308", ""},
		{"2251799813685248.5", "2251799813685248.5"}, {"4503599627370496.5", ""}, {"9007199254740992.5", ""}, {"12345678901234567.89", ""},
	} {
		got, ok := canonicalNumber(c.in)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("canonicalNumber(%.50s) is %.50q, %t; want %.50q", c.in, got, ok, c.want)
		}
	}
}

// TestCanonicalNumberIsExact compares with exact arithmetic: the canonical
// text has the value of the number, is stable, and is one for each value.
func TestCanonicalNumberIsExact(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		raw := number.Draw(t, "number")
		text, ok := canonicalNumber(raw)
		want, _ := new(big.Rat).SetString(raw)
		if !ok {
			f, _ := want.Float64()
			if shortest, _ := new(big.Rat).SetString(fmt.Sprint(f)); want.IsInt() || shortest.Cmp(want) == 0 {
				t.Fatalf("%s is refused and could be kept", raw)
			}
			return
		}
		if got, _ := new(big.Rat).SetString(text); got.Cmp(want) != 0 {
			t.Fatalf("%s became %s", raw, text)
		}
		if again, ok := canonicalNumber(text); !ok || again != text {
			t.Fatalf("%s became %s, and that %s", raw, text, again)
		}
		if zeros, ok := canonicalNumber(respellNumber(text)); !ok || zeros != text {
			t.Fatalf("%s became %s, and %s became %s", raw, text, respellNumber(text), zeros)
		}
	})
}

// TestEveryDoubleIsKept checks that what a program prints of its doubles in
// the shortest way, as Go, JavaScript and Python do, is never refused.
func TestEveryDoubleIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		raw, err := json.Marshal(f)
		if err != nil {
			return // NaN and infinities have no JSON
		}
		text, ok := canonicalNumber(string(raw))
		if !ok {
			t.Fatalf("%s is refused", raw)
		}
		var got float64
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != f {
			t.Fatalf("%s became %s, which is %v (%v)", raw, text, got, err)
		}
	})
}

func TestCompareUTF16(t *testing.T) {
	text := rapid.StringOf(rapid.SampledFrom([]rune("a\x00\u007f\u0080é\u07ff\u0800\ud7ff\ue000\ufb33\uffff\U00010000😀\U0010ffff")))
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		if got := compareUTF16(a, b); cmp.Compare(got, 0) != want {
			t.Fatalf("compareUTF16(%+q, %+q) is %d, want %d", a, b, got, want)
		}
	})
}

func TestCheckStructNumber(t *testing.T) {
	const edge = 1 << 53
	for f, want := range map[float64]bool{
		0: true, math.Copysign(0, -1): true, 0.1: true, -12.5: true, 5e-324: true, edge - 1: true, -(edge - 1): true,
		edge: false, -edge: false, edge + 2: false, 1e300: false, math.Inf(1): false, math.Inf(-1): false, math.NaN(): false,
	} {
		if got := CheckStructNumber(f); got != want {
			t.Errorf("CheckStructNumber(%v) is %t", f, got)
		}
	}
}

// respell writes a parsed value as differently as JSON allows: members
// backwards, everything escaped, numbers with a point and an exponent, white
// space everywhere.
func respell(dst *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		dst.WriteString("{ ")
		names := slices.SortedFunc(maps.Keys(v), func(a, b string) int { return -compareUTF16(a, b) })
		for i, name := range names {
			if i > 0 {
				dst.WriteString("\n,\t")
			}
			respell(dst, name)
			dst.WriteString(" :\r")
			respell(dst, v[name])
		}
		dst.WriteString(" }")
	case []any:
		dst.WriteString("[ ")
		for i, element := range v {
			if i > 0 {
				dst.WriteString(" , ")
			}
			respell(dst, element)
		}
		dst.WriteString(" ]")
	case string:
		dst.WriteByte('"')
		for _, unit := range utf16.Encode([]rune(v)) {
			fmt.Fprintf(dst, `\u%04X`, unit)
		}
		dst.WriteByte('"')
	case json.Number:
		dst.WriteString(respellNumber(v.String()))
	case bool:
		fmt.Fprint(dst, v)
	default:
		dst.WriteString("null")
	}
}

// respellNumber writes a canonical number another way, where there is one.
func respellNumber(text string) string {
	switch {
	case len(text) > maxDoubleDigits:
		return text // an integer that only its digits can spell
	case strings.Contains(text, "e"):
		mantissa, exponent, _ := strings.Cut(text, "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += "."
		}
		return mantissa + "000E" + exponent
	case strings.Contains(text, "."):
		return text + "000e+0"
	default:
		return text + ".00E-0"
	}
}

// FuzzParseArguments checks what the laws on hashes rest on: the canonical
// form is stable, means the same as what came, and does not depend on how it
// was spelled.
func FuzzParseArguments(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"a":1,"a":2}`, `{"b":[1.0,1e2,-0,0.1,1e30,5e-324],"a":{"é":"\ud83d\ude00\/\u0000"}}`,
		`{"n":9007199254740993,"m":0.1000000000000000055}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `[1]`, `{"a":{"b":[[[null,true,false]]]}}`,
		`{"` + "\ufb33" + `":1,"😀":2,"":3}`, `{"n":1e999999999}`, `{"a":1}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		args, err := ParseArguments(data)
		if err != nil {
			var bad *ArgumentsError
			if !errors.As(err, &bad) || len(bad.Violations) == 0 || len(bad.Violations) > maxViolations {
				t.Fatalf("error is %T: %v", err, err)
			}
			if strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Fatalf("error is not one line: %q", err)
			}
			return
		}
		canonical := args.JSON()
		if len(canonical) > MaxArgumentsBytes {
			t.Fatalf("canonical form has %d bytes", len(canonical))
		}
		again, err := ParseArguments(canonical)
		if err != nil || !bytes.Equal(again.JSON(), canonical) || again.Hash() != args.Hash() {
			t.Fatalf("canonical form %s became %s (%v)", canonical, again.JSON(), err)
		}

		var other bytes.Buffer
		respell(&other, args.Value())
		if other.Len() <= MaxArgumentsBytes {
			respelled, err := ParseArguments(other.Bytes())
			if err != nil || respelled.Hash() != args.Hash() {
				t.Fatalf("%s became %s (%v), want %s", other.Bytes(), respelled.JSON(), err, canonical)
			}
		}

		// An independent canonicaliser, which knows doubles only, must see no
		// difference between what came and what we made of it.
		if len(bytes.TrimSpace(data)) > 0 {
			theirs, ours := jsontext.Value(data).Clone(), jsontext.Value(canonical).Clone()
			if err := theirs.Canonicalize(); err != nil {
				t.Fatalf("accepted what jsontext refuses: %v", err)
			}
			if err := ours.Canonicalize(); err != nil || !bytes.Equal(ours, theirs) {
				t.Fatalf("as RFC 8785 %s is %s, and our %s is %s (%v)", data, theirs, canonical, ours, err)
			}
		}
	})
}
