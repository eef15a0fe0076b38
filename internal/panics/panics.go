package panics

import (
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strconv"
	"strings"
)

// maxFrames bounds the stack that is logged: enough to find the place, little
// enough for one line of a log.
const maxFrames = 24

// Attr is what a log may say of a recovered panic: the type of its value, the
// text of one that the runtime made (an index out of range, a nil map), and the
// functions and lines that led there. Call it in the deferred function that
// recovered, so that the stack is still there.
func Attr(recovered any) slog.Attr {
	what := []any{slog.String("type", fmt.Sprintf("%T", recovered))}
	if text, ok := runtimeText(recovered); ok {
		what = append(what, slog.String("text", text))
	}
	return slog.Group("panic", append(what, slog.String("stack", stack()))...)
}

// runtimeText returns what the runtime itself says: it names indices and types,
// and nothing of what is in them. Others can have the method that marks its
// errors, so that the type's package decides.
func runtimeText(recovered any) (string, bool) {
	err, ok := recovered.(runtime.Error)
	if !ok {
		return "", false
	}
	t := reflect.TypeOf(recovered)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != "runtime" && t.PkgPath() != "internal/runtime/maps" {
		return "", false
	}
	return err.Error(), true
}

// stack lists functions and lines, innermost first. It is made of the callers
// and not of debug.Stack, which shows the words of arguments.
func stack() string {
	pcs := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var b strings.Builder
	panicked := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicked = true
		case panicked:
			if b.Len() > 0 {
				b.WriteString(" < ")
			}
			b.WriteString(frame.Function + ":" + strconv.Itoa(frame.Line))
		}
		if !more {
			return b.String()
		}
	}
}
