package ledger_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/onceward/onceward/ledger"
)

// What is written without encoding/json is what encoding/json writes, byte for byte.
func TestContextsAreWrittenAsJSON(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", "plain", "agent:test", "a b~!", `quote " and \ backslash`, "<script>&amp;</script>", "\x00\x01\x1f", "\b\f\n\r\t", "\x7f",
		"名前 🎉", "\u2028\u2029\ufeff\uffff", "bad \xff\xed\xa0\x80 bytes", "{", "}", ",", strings.Repeat("x", 5000), strings.Repeat("é", 300),
	}
	for i := range 256 {
		texts = append(texts, "byte "+string([]byte{byte(i)}))
	}
	for _, text := range texts {
		sameJSON(t, ledger.Run{RunID: text})
		sameJSON(t, ledger.EventContext{ActionType: text})
		var full ledger.EventContext
		filled(reflect.ValueOf(&full).Elem(), text)
		full.KeyHash = ""
		sameJSON(t, full.Run)
		sameJSON(t, full)
	}
	// Each member alone: the first of an object has no comma before it.
	for _, whole := range []any{&ledger.Run{}, &ledger.EventContext{}} {
		v := reflect.ValueOf(whole).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "KeyHash" {
				continue
			}
			v.SetZero()
			filled(v.Field(i), "alone")
			sameJSON(t, v.Interface())
		}
	}
	for _, attempt := range []int{-1, 1, 10, 1 << 40} {
		sameJSON(t, ledger.Run{Attempt: attempt})
	}
}

// filled sets all texts and numbers below a value.
func filled(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int:
		v.SetInt(3)
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), text)
		}
	default:
		panic("a member that is neither a text nor a number: " + v.Type().String())
	}
}

// sameJSON compares what is written of a run or a context with encoding/json, a
// context with a key and without.
func sameJSON(t *testing.T, value any) {
	t.Helper()
	want, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	switch value := value.(type) {
	case ledger.Run:
		got = value.AppendJSON(nil)
	case ledger.EventContext:
		got = value.AppendJSON(nil, "")
		const key = "key-1"
		hash := sha256.Sum256([]byte(key))
		hashed := value
		hashed.KeyHash = hex.EncodeToString(hash[:])
		want, err := json.Marshal(hashed)
		if got := value.AppendJSON(nil, key); err != nil || string(got) != string(want) {
			t.Errorf("with a key: got %.300s, want %.300s (%v)", got, want, err)
		}
	}
	if string(got) != string(want) {
		t.Errorf("got %.300s, want %.300s", got, want)
	}
}
