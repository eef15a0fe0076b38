package grpcaction

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of texts that come from outside, in bytes.
const (
	maxTextBytes = 300
	maxCodeBytes = 64
)

// oneLine makes foreign text safe to store and to show: valid UTF-8, one line,
// no control or invisible formatting characters, at most maxTextBytes.
func oneLine(s string) string {
	s = s[:min(len(s), 8*maxTextBytes)] // more than can be kept is not looked at
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
	}), " ")
	if len(s) <= maxTextBytes {
		return s
	}
	cut := maxTextBytes - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// snakeCode makes an adapter's code a stable word: lower-case letters, digits
// and single underscores. It returns "" when nothing is left.
func snakeCode(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s[:min(len(s), maxCodeBytes)]), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "_")
}
