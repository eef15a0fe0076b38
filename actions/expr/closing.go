package expr

import "strings"

// closing returns where the expression at the start of s ends: at the brace that
// is not inside of a pair, a string or a comment; -1 where there is none.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'':
			n := quoted(s[i:], raw(s[:i]))
			if n < 0 {
				return -1
			}
			i += n - 1
		case '/':
			if strings.HasPrefix(s[i:], "//") {
				end := strings.IndexByte(s[i:], '\n')
				if end < 0 {
					return -1
				}
				i += end
			}
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// quoted returns how long the string at the start of s is, with its quotes; -1
// where it does not end. In a raw one a backslash is a backslash.
func quoted(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return -1
}

// raw reports whether a quote after this text begins a raw string: r"…", and with
// b for bytes on either side of the r.
func raw(before string) bool {
	at := len(before)
	for at > 0 && strings.IndexByte("rRbB", before[at-1]) >= 0 {
		at--
	}
	prefix := strings.ToLower(before[at:])
	if at > 0 && isNameByte(before[at-1]) {
		return false // the end of a name
	}
	return prefix == "r" || prefix == "br" || prefix == "rb"
}

func isNameByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
