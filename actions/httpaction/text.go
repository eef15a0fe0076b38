package httpaction

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

// SafeText makes foreign text safe to store and to show: valid UTF-8, one line,
// no control or invisible formatting characters, at most 300 bytes.
func SafeText(s string) string { return oneLine(s) }

// oneLine makes foreign text safe to store and to show: valid UTF-8, one line,
// no control or invisible formatting characters, at most maxTextBytes.
func oneLine(s string) string {
	// Far more than can be kept is not even looked at.
	s = strings.ToValidUTF8(s[:min(len(s), 8*maxTextBytes)], "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxTextBytes {
		return s
	}
	cut := maxTextBytes - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// SafeCode makes a provider's error code a stable word: lower-case letters,
// digits and single underscores, at most 64 bytes; empty when nothing is left.
func SafeCode(s string) string { return snakeCode(s) }

// snakeCode makes a provider's error code a stable word of ours: lower-case
// letters, digits and single underscores, at most maxCodeBytes. It returns ""
// when nothing is left.
func snakeCode(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s[:min(len(s), maxCodeBytes)]), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "_")
}
