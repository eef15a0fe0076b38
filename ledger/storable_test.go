package ledger

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStorableReceiptKeepsWhatIsClean(t *testing.T) {
	t.Parallel()
	atLimit := `{"a":"` + strings.Repeat("x", MaxReceiptBytes-len(`{"a":""}`)) + `"}`
	for name, receipt := range map[string]string{
		"object":         `{"id":"re_1"}`,
		"empty object":   `{}`,
		"odd spacing":    "{ \"b\" : 1.50 ,\n\t\"a\":1e400 }",
		"double key":     `{"a":1,"a":2}`,
		"escaped NUL":    `{"a":"\u0000"}`,
		"lone surrogate": `{"a":"\ud800"}`,
		"reversed pair":  `{"a":"\udc00\ud800"}`,
		"huge number":    `{"a":123456789012345678901234567890.123456789}`,
		"at the limit":   atLimit,
		"not Latin":      `{"ä":"名前 🎉"}`,
		"noncharacter":   "{\"a\":\"\uFFFF\uFEFF\"}",
		"space around":   "\r\n\t {} \n",
	} {
		given := []byte(receipt)
		if got := StorableReceipt(given); string(got) != receipt || &got[0] != &given[0] {
			t.Errorf("%s: %.80q became %.80q, or a copy", name, receipt, got)
		}
	}
}

func TestStorableReceiptReplacesWhatIsNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		receipt []byte
		want    string // a member of what is kept
	}{
		"nothing":        {nil, ""},
		"raw NUL":        {[]byte("{\"a\":\"\x00\"}"), "receipt_unreadable"},
		"invalid UTF-8":  {[]byte("{\"a\":\"\xff\"}"), "receipt_unreadable"},
		"raw surrogate":  {[]byte("{\"a\":\"\xed\xa0\x80\"}"), "receipt_unreadable"},
		"not JSON":       {[]byte("<html>502</html>"), "receipt_unreadable"},
		"cut short":      {[]byte(`{"id":"re_1"`), "receipt_unreadable"},
		"two values":     {[]byte(`{}{}`), "receipt_unreadable"},
		"array":          {[]byte(`[1]`), "receipt_unreadable"},
		"null":           {[]byte(`null`), "receipt_unreadable"},
		"text":           {[]byte(`"re_1"`), "receipt_unreadable"},
		"BOM":            {[]byte("\uFEFF{}"), "receipt_unreadable"},
		"too long":       {[]byte(`{"a":"` + strings.Repeat("x", MaxReceiptBytes) + `"}`), "receipt_too_large"},
		"deeper than Go": {nested(20_000), "receipt_unreadable"},
	} {
		got := StorableReceipt(c.receipt)
		var kept map[string]any
		if err := json.Unmarshal(got, &kept); err != nil {
			t.Errorf("%s: %q is no JSON object: %v", name, got, err)
			continue
		}
		if c.want == "" {
			if len(kept) != 0 {
				t.Errorf("%s: kept %q, want {}", name, got)
			}
			continue
		}
		if kept[c.want] != true || kept["bytes"] != float64(len(c.receipt)) || len(kept["sha256"].(string)) != 64 {
			t.Errorf("%s: kept %q, want %s with size and hash", name, got, c.want)
		}
	}
}

func TestStorableReceiptTellsReceiptsApart(t *testing.T) {
	t.Parallel()
	a, b := StorableReceipt([]byte("no JSON: 1")), StorableReceipt([]byte("no JSON: 2"))
	if bytes.Equal(a, b) {
		t.Errorf("two receipts are kept as the same %q", a)
	}
}

// nested is a JSON object with arrays in arrays.
func nested(depth int) []byte {
	return []byte(`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
}

func TestStorableText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"empty":         {"", ""},
		"plain":         {"card was declined", "card was declined"},
		"NUL":           {"a\x00b", "a\uFFFDb"},
		"invalid UTF-8": {"a\xffb", "a\uFFFDb"},
		"surrogate":     {"a\xed\xa0\x80b", "a\uFFFDb"},
		"at the limit":  {strings.Repeat("x", MaxTextBytes), strings.Repeat("x", MaxTextBytes)},
		"too long":      {strings.Repeat("x", MaxTextBytes+1), strings.Repeat("x", MaxTextBytes-3) + "…"},
		// Three bytes each: the cut falls into a character.
		"cut in a character": {strings.Repeat("名", MaxTextBytes), strings.Repeat("名", (MaxTextBytes-3)/3) + "…"},
		"NULs that grow":     {strings.Repeat("\x00", MaxTextBytes), strings.Repeat("\uFFFD", (MaxTextBytes-3)/3) + "…"},
	} {
		got := StorableText(c.in)
		if got != c.want {
			t.Errorf("%s: %.40q became %.40q (%d bytes), want %.40q (%d bytes)", name, c.in, got, len(got), c.want, len(c.want))
		}
		if len(got) > MaxTextBytes || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("%s: %.40q is not storable", name, got)
		}
		if again := StorableText(got); again != got {
			t.Errorf("%s: storable text became %.40q", name, again)
		}
	}
}

func FuzzStorable(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"a":"\ud800"}`, "\x00", "\xff", strings.Repeat("é", MaxTextBytes)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := StorableReceipt([]byte(s)); !json.Valid(got) || !utf8.Valid(got) || got[0] != '{' || len(got) > MaxReceiptBytes {
			t.Errorf("receipt %q became %q", s, got)
		}
		if got := StorableText(s); !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > MaxTextBytes {
			t.Errorf("text %q became %q", s, got)
		}
	})
}
