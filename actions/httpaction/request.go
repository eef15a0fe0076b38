package httpaction

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// ErrNotSendable marks requests that can never be sent as they are: a bad URL
// or header, or a target that is not allowed. Trying again does not help.
var ErrNotSendable = errors.New("the request cannot be sent")

// Request is one rendered request: everything that has a meaning for the
// provider, its idempotency key included, and no credentials. The same call
// must give the same Request, whatever the time and the attempt.
type Request struct {
	Method string
	URL    string // absolute, http or https, no user and no fragment
	// Header holds the headers that the provider acts on. Headers of the
	// connection (Host, Content-Length, Expect and their kin) and of
	// credentials are refused.
	Header http.Header
	Body   []byte
}

// Bytes returns the canonical form of the request for [actions.Renderer]: the
// request line with the whole URL, the headers sorted by canonical name, an
// empty line, the body. A line cannot contain a line break, so that two
// different requests never share a form. It fails, with ErrNotSendable, for a
// request that Send would refuse for its form.
func (r Request) Bytes() ([]byte, error) {
	u, err := r.check()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, u)
	header := canonical(r.Header)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes(), nil
}

// check refuses what could be read in two ways or could reach another target
// than the one it names.
func (r Request) check() (*url.URL, error) {
	if !isToken(r.Method) || r.Method != strings.ToUpper(r.Method) || r.Method == http.MethodConnect {
		return nil, notSendable("method %q", r.Method)
	}
	u, err := checkURL(r.URL)
	if err != nil {
		return nil, err
	}
	return u, checkHeader(r.Header, connectionHeaders, credentialHeaders)
}

func checkURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil: // its text repeats the URL, which may hold data
		return nil, notSendable("the URL cannot be parsed")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Opaque != "":
		return nil, notSendable("the URL is not absolute http or https")
	case u.User != nil:
		return nil, notSendable("the URL names a user; credentials are added by the sender")
	case u.Fragment != "":
		return nil, notSendable("the URL has a fragment")
	}
	// A name that looks like an allowed one, or is folded into it, is not it.
	if strings.ContainsFunc(u.Host, func(c rune) bool { return c > unicode.MaxASCII }) {
		return nil, notSendable("the URL's host is not plain ASCII: write an international name as xn--…")
	}
	if leadsUp(u.Path) {
		return nil, notSendable("the URL's path has a segment that leads elsewhere: . or ..")
	}
	return u, nil
}

// leadsUp reports whether a decoded path has a segment that servers resolve, in
// any of the spellings that some of them take for one: decoded once more, behind
// a backslash, or before parameters of the segment.
func leadsUp(path string) bool {
	for range maxDecodings {
		for _, segment := range strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '\\' }) {
			if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(path)
		if err != nil || decoded == path {
			return false
		}
		path = decoded
	}
	return true
}

// maxDecodings is how often servers behind servers may decode a path.
const maxDecodings = 4

// TokenHeader carries the operation token of a write, in its canonical spelling.
// It is a credential: [Options.Authorize] adds it, and no request has it itself.
const TokenHeader = "Onceward-Operation-Token"

// The lists hold canonical names.
var (
	connectionHeaders = []string{
		"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
	credentialHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization", TokenHeader}
)

func checkHeader(h http.Header, forbidden ...[]string) error {
	seen := make(map[string]bool, len(h))
	for name, values := range h {
		if !isToken(name) {
			return notSendable("header name %q", name)
		}
		canon := http.CanonicalHeaderKey(name)
		if seen[canon] {
			return notSendable("header %s is set under two spellings", canon)
		}
		seen[canon] = true
		for _, list := range forbidden {
			if slices.Contains(list, canon) {
				return notSendable("header %s belongs to the sender", canon)
			}
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return notSendable("the value of header %s has a control character", canon)
			}
			if strings.Trim(value, " \t") != value {
				return notSendable("the value of header %s begins or ends with white space", canon)
			}
		}
	}
	return nil
}

// canonical returns h under canonical names. checkHeader has made sure that no
// two names fall together.
func canonical(h http.Header) http.Header {
	c := make(http.Header, len(h))
	for name, values := range h {
		c[http.CanonicalHeaderKey(name)] = values
	}
	return c
}

// wireHeader returns h as the transport gets it. Go's transport takes a
// request with one of two header names for one that it may send again; it
// looks them up in their canonical spelling, so that another spelling, which
// means the same to every server (RFC 9110, section 5.1), hides them.
func wireHeader(h http.Header) http.Header {
	w := canonical(h)
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := w[name]; ok {
			delete(w, name)
			w[strings.ToLower(name)] = values
		}
	}
	return w
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func notSendable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotSendable, fmt.Sprintf(format, args...))
}
