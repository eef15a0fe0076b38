package smtpaction

import (
	"encoding/base64"
	"net/mail"
	"strings"
	"unicode/utf8"
)

const (
	// foldAt is the length that header lines should have (RFC 5322, 2.1.1).
	foldAt = 76
	// longestWord is the longest word of a subject that is left as it is.
	longestWord = 70
	// encodedBytes of text make an encoded word of 60 characters at most, which
	// fits into the first line of a field too (RFC 2047, 2: 76 with its name).
	encodedBytes = 36
)

// fold writes a header field, with line breaks at spaces where it is long.
func fold(name, value string) string {
	var b strings.Builder
	line := name + ":"
	for i, word := range strings.Split(value, " ") {
		if i > 0 && word != "" && len(line)+1+len(word) > foldAt {
			b.WriteString(line + "\r\n")
			line = ""
		}
		line += " " + word
	}
	b.WriteString(line + "\r\n")
	return b.String()
}

// unstructured is a text as it stands in a header: as it is where it is ASCII
// that cannot be mistaken for encoded words, else as encoded words.
func unstructured(s string, longest int) string {
	s = strings.TrimSpace(s)
	if !plainASCII(s) {
		return encodedWords(s)
	}
	for word := range strings.SplitSeq(s, " ") {
		if len(word) > longest {
			return encodedWords(s)
		}
	}
	return s
}

// plainASCII also refuses runs of spaces, at which a fold could leave a line of
// nothing but white space.
func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.Contains(s, "=?") && !strings.Contains(s, "  ")
}

// encodedWords encodes a text (RFC 2047). Readers drop the spaces between the
// words.
func encodedWords(s string) string {
	var words []string
	for s != "" {
		n := min(len(s), encodedBytes)
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(s[:n]))+"?=")
		s = s[n:]
	}
	return strings.Join(words, " ")
}

func addressList(list []mail.Address) string {
	texts := make([]string, len(list))
	for i, a := range list {
		switch name := strings.TrimSpace(a.Name); {
		case name == "":
			texts[i] = a.Address
		case plainASCII(name):
			texts[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `" <` + a.Address + ">"
		default:
			texts[i] = encodedWords(name) + " <" + a.Address + ">"
		}
	}
	return strings.Join(texts, ", ")
}
