package definition

import (
	"fmt"
	"maps"
	"net"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// texts looks through all texts of a file: for settings that the provider does
// not have, and for secrets that are no references.
func (c *checker) texts(config map[string]Setting) {
	eachText(c.set.docs[c.file].Value, nil, func(path []string, text string) {
		if secretShape.MatchString(text) {
			c.fault(c.set.docs[c.file].Field(path...), "looks like a secret itself: it belongs into the environment or a file, with {env: NAME} or {file: PATH} here")
		}
		for _, name := range settingsIn(path[len(path)-1], text) {
			if _, known := config[name]; !known {
				c.fault(c.set.docs[c.file].Field(path...), "the provider has no config.%s", name)
			}
		}
	})
}

// secretShape is how the secrets of well-known providers begin.
var secretShape = regexp.MustCompile(`\b(?:[sr]k_live_[A-Za-z0-9]{8}|whsec_[A-Za-z0-9+/]{20}|xox[abprs]-[0-9A-Za-z-]{10}|gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{30}|SG\.[A-Za-z0-9_-]{16,}\.|AKIA[0-9A-Z]{16}\b|shpat_[0-9a-f]{20})|-----BEGIN [A-Z ]*PRIVATE KEY`)

func eachText(value any, path []string, do func(path []string, text string)) {
	switch v := value.(type) {
	case string:
		if len(path) > 0 {
			do(path, v)
		}
	case []any:
		for i, item := range v {
			eachText(item, below(path, strconv.Itoa(i)), do)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			eachText(v[name], below(path, name), do)
		}
	}
}

var (
	templateExpression = regexp.MustCompile(`\$\{[^}]*\}`)
	settingUse         = regexp.MustCompile(`\bconfig\.([A-Za-z_][A-Za-z0-9_]*)`)
)

// settingsIn are the names of the settings that a text reads: in "${…}", or
// anywhere where the field is an expression.
func settingsIn(field, text string) []string {
	var names []string
	sources := templateExpression.FindAllString(text, -1)
	switch field {
	case "if", "code", "reference", "item", "items", "match", "ours", "absent", "pending", "failed", "next", "replayed_by", "operation":
		sources = append(sources, text)
	}
	for _, source := range sources {
		for _, use := range settingUse.FindAllStringSubmatch(source, -1) {
			if !slices.Contains(names, use[1]) {
				names = append(names, use[1])
			}
		}
	}
	return names
}

// headerName wants a name that a header can have (RFC 9110, section 5.1).
func (c *checker) headerName(field, name string) bool {
	if !headerToken.MatchString(name) {
		c.fault(field, "%q is no name of a header", name)
		return false
	}
	return true
}

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// sentHeaders wants names of headers that a contract may set.
func (c *checker) sentHeaders(field string, names []string) {
	seen := map[string]bool{}
	for _, name := range names {
		at := field + "[" + strconv.Quote(name) + "]"
		if !c.headerName(at, name) {
			continue
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch canonical {
		case "Authorization", "Proxy-Authorization", "Cookie":
			c.fault(at, "credentials belong to http.auth, where they come from a secret and are removed from what is stored")
		case tokenHeader:
			c.fault(at, "is where the operation token goes, and comes from operation_token alone")
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "Keep-Alive":
			c.fault(at, "is the connection's own, and cannot be set")
		}
		if seen[canonical] {
			c.fault(at, "is there twice: case makes no other header")
		}
		seen[canonical] = true
	}
}

// tokenHeader carries operation tokens.
const tokenHeader = "Onceward-Operation-Token"

// notToken refuses the header of operation tokens.
func (c *checker) notToken(field, name string) {
	if textproto.CanonicalMIMEHeaderKey(name) == tokenHeader {
		c.fault(field, "is where the operation token goes, and comes from operation_token alone")
	}
}

// comparedHeaders wants names of headers that an answer can have.
func (c *checker) comparedHeaders(field string, names []string) {
	for _, name := range names {
		c.headerName(field+"["+strconv.Quote(name)+"]", name)
	}
}

func (c *checker) tls(field string, t *TLS) {
	if t != nil && (t.Cert == "") != (t.Key == "") {
		c.fault(field, "cert and key go together")
	}
}

// grpc checks how an AdapterService is reached.
func (c *checker) grpc(g *GRPC) {
	host, port, err := net.SplitHostPort(g.Address)
	if n, err2 := strconv.ParseUint(port, 10, 16); err != nil || err2 != nil || n == 0 || host == "" || strings.Contains(host, "/") {
		c.fault("grpc.address", "want host:port, or [address]:port for IPv6")
		return
	}
	if g.PlainText && g.TLS != nil {
		c.fault("grpc.plain_text", "is at odds with tls")
	}
	if ip := net.ParseIP(host); g.PlainText && ip != nil && !ip.IsLoopback() {
		c.fault("grpc.plain_text", "%s is not on this machine: plain text is for loopback alone, want tls", host)
	}
	c.tls("grpc.tls", g.TLS)
}

// secretReference wants names that an environment and a file system can have.
func (c *checker) secretReference(field string, s Secret) {
	switch {
	case (s.Env == "") == (s.File == ""):
		c.fault(field, "want a reference to a secret: either env or file")
	case s.Env != "" && !envName.MatchString(strings.ReplaceAll(s.Env, "${TENANT}", "T")):
		c.fault(field+".env", "want the name of an environment variable, which may hold ${TENANT}; the secret itself is not written here")
	case strings.Contains(strings.ReplaceAll(s.File, "${tenant}", ""), "${"):
		c.fault(field+".file", "may hold ${tenant} and no other ${…}")
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// events checks what the kinds of events may say.
func (c *checker) events(events []Event) {
	for i, e := range events {
		field := fmt.Sprintf("webhooks.events[%d]", i)
		if e.Operation == "" && e.Reference == "" {
			c.fault(field, "want operation or reference: which operation it is about")
		}
		if (e.Is == "applied") != (e.Receipt != nil) {
			c.fault(field, "a receipt goes with is: applied, and only with it")
		}
		if e.Is != "rejected" && (e.Code != "" || e.Message != "") {
			c.fault(field, "code and message go with is: rejected")
		}
	}
}

// signed checks the parts that an HMAC of a webhook is made of.
func (c *checker) signed(v Verify) {
	if v.Scheme != "hmac" {
		return
	}
	if v.Header != "" {
		c.headerName("webhooks.verify.header", v.Header)
	}
	if v.TimestampHeader != "" {
		c.headerName("webhooks.verify.timestamp_header", v.TimestampHeader)
	}
	body := len(v.Content) == 0
	for i, part := range v.Content {
		field := fmt.Sprintf("webhooks.verify.content[%d]", i)
		kind, rest, _ := strings.Cut(part, ":")
		switch {
		case part == "body", part == "form":
			body = true
		case part == "url", part == "method", kind == "text" && rest != "":
		case part == "timestamp":
			if v.TimestampHeader == "" {
				c.fault(field, "timestamp wants timestamp_header")
			}
		case kind == "header" && rest != "":
			c.headerName(field, rest)
		default:
			c.fault(field, "want body, form, url, method, timestamp, header:<name> or text:<text>")
		}
	}
	if !body {
		c.fault("webhooks.verify.content", "the body is not signed: anybody could put another one under the signature")
	}
}

// below is a path with one more step, and its own memory.
func below(path []string, step string) []string { return append(slices.Clone(path), step) }
