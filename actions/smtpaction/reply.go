package smtpaction

import (
	"bufio"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Limits of a reply. RFC 5321 has lines of 512 bytes; servers write longer ones.
const (
	maxReplyLine  = 2048
	maxReplyLines = 100
	maxTextBytes  = 200 // of what is kept
)

// errUnreadable: what came is no reply of SMTP.
var errUnreadable = errors.New("the reply cannot be read")

// reply is one complete reply of a server.
type reply struct {
	code  int
	lines []string // without code
}

// readReply reads one reply, all its lines. Anything that is not exactly that
// is an error; a reply that is cut short is io.EOF or io.ErrUnexpectedEOF.
func readReply(r *bufio.Reader) (reply, error) {
	var got reply
	for len(got.lines) < maxReplyLines {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return reply{}, errUnreadable
		}
		if err != nil {
			return reply{}, err
		}
		text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if len(text) < 3 || len(text) > 3 && text[3] != ' ' && text[3] != '-' {
			return reply{}, errUnreadable
		}
		code, err := strconv.Atoi(text[:3])
		if err != nil || code < 200 || code > 599 || got.lines != nil && code != got.code {
			return reply{}, errUnreadable
		}
		got.code = code
		got.lines = append(got.lines, text[min(4, len(text)):])
		if len(text) == 3 || text[3] == ' ' {
			return got, nil
		}
	}
	return reply{}, errUnreadable
}

// class is the first digit, which is what a client decides by.
func (r reply) class() int { return r.code / 100 }

var enhancedCode = regexp.MustCompile(`^[245]\.[0-9]{1,3}\.[0-9]{1,3}( |$)`)

// enhanced is the enhanced status code (RFC 3463), or "".
func (r reply) enhanced() string {
	return strings.TrimSpace(enhancedCode.FindString(r.lines[len(r.lines)-1]))
}

// String is the codes alone: the text of a refusal can repeat addresses.
func (r reply) String() string {
	if e := r.enhanced(); e != "" {
		return strconv.Itoa(r.code) + " " + e
	}
	return strconv.Itoa(r.code)
}

// text is what the server said beside the codes, in its last line, made safe to
// store and to show.
func (r reply) text() string {
	last := r.lines[len(r.lines)-1]
	return oneLine(strings.TrimPrefix(last, enhancedCode.FindString(last)))
}

// oneLine is a foreign text without control and formatting characters, and of
// at most maxTextBytes.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxTextBytes {
		s = strings.ToValidUTF8(s[:maxTextBytes], "")
	}
	return s
}
