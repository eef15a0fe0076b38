package panics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const planted = "PLANTED-s3cret"

// pretender is an error of somebody else that claims to be the runtime's.
type pretender struct{}

func (pretender) Error() string { return planted }
func (pretender) RuntimeError() {}

func TestAttr(t *testing.T) {
	t.Parallel()
	var none map[string]int
	for _, c := range []struct {
		name  string
		panic func()
		typ   string
		text  string // empty: none may be there
	}{
		{"a text", func() { panic("token " + planted) }, "string", ""},
		{"an error", func() { panic(errors.New(planted)) }, "*errors.errorString", ""},
		{"a wrapped error", func() { panic(fmt.Errorf("token %s", planted)) }, "*fmt.fmtError", ""},
		{"a struct", func() { panic(struct{ Token string }{planted}) }, "struct { Token string }", ""},
		{"bytes", func() { panic([]byte(planted)) }, "[]uint8", ""},
		{"a pretender", func() { panic(pretender{}) }, "panics.pretender", ""},
		{"an index", func() { _ = []byte(planted)[len(planted)+len(none)] }, "runtime.boundsError", "index out of range"},
		{"a nil map", func() { none[planted] = 1 }, "", "assignment to entry in nil map"},
		{"a conversion", func() { var v any = planted; _ = v.(int) }, "*runtime.TypeAssertionError", "interface conversion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			func() {
				defer func() {
					slog.New(slog.NewJSONHandler(&out, nil)).LogAttrs(t.Context(), slog.LevelError, "x", Attr(recover()))
				}()
				c.panic()
			}()
			got := out.String()
			if strings.Contains(got, planted) || strings.Contains(got, fmt.Sprintf("%d", []byte(planted))) {
				t.Errorf("the log says what the panic said: %s", got)
			}
			if !strings.Contains(got, `"type":"`+c.typ) && c.name != "a wrapped error" {
				t.Errorf("no type %s in %s", c.typ, got)
			}
			if (c.text != "") != strings.Contains(got, `"text":`) || !strings.Contains(got, c.text) {
				t.Errorf("text in %s, want %q", got, c.text)
			}
			if !strings.Contains(got, "panics.TestAttr.func") || strings.Contains(got, "panics.Attr") {
				t.Errorf("the stack does not begin where it panicked: %s", got)
			}
		})
	}
}
