package httpaction

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// minSecretBytes is the shortest secret that is looked for: a shorter one
// would match innocent text.
const minSecretBytes = 8

// Credential is what proves who we are in one request. It is no part of
// [Request.Bytes], and is removed from what comes back.
type Credential struct {
	Header http.Header
	// Query is added behind the parameters of the request.
	Query url.Values
	// Secrets are texts that are in Header and Query in another form (a password
	// in the Base64 of a header), which must not come back either.
	Secrets []string
}

// addTo puts the credential on a request. It replaces nothing.
func (c Credential) addTo(header http.Header, u *url.URL) error {
	if err := checkHeader(c.Header, connectionHeaders); err != nil {
		return err
	}
	taken := canonical(header)
	for name, values := range canonical(c.Header) {
		if _, ok := taken[name]; ok {
			return notSendable("the credential would replace header %s", name)
		}
		header[name] = slices.Clone(values)
	}
	if len(c.Query) == 0 {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // a parameter could hide in what cannot be read
		return notSendable("the URL's query cannot be read")
	}
	for name := range c.Query {
		if query.Has(name) {
			return notSendable("the credential would replace parameter %s", name)
		}
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+c.Query.Encode(), "&")
	return nil
}

// secrets returns every text of the credential that an answer could repeat: the
// values, what follows the scheme in "Bearer …", and values as a URL and as JSON
// spell them. What is shorter than minSecretBytes is left out.
func (c Credential) secrets() []string {
	var secrets []string
	add := func(s string) {
		if len(s) >= minSecretBytes {
			secrets = append(append(secrets, s), inJSON(s)...)
		}
	}
	for _, values := range c.Header {
		for _, value := range values {
			if _, token, ok := strings.Cut(value, " "); ok {
				add(token)
			}
			add(value)
		}
	}
	for _, values := range c.Query {
		for _, value := range values {
			add(value)
			add(url.QueryEscape(value))
			add(url.PathEscape(value))
		}
	}
	for _, secret := range c.Secrets {
		add(secret)
	}
	// The longest first: what is left of a longer one would still tell a part.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(secrets)
}

// inJSON returns how encoders write a text in a JSON string, where that differs
// from the text: what is read from JSON has its own spelling back.
func inJSON(text string) []string {
	escapes := []string{`\`, `\\`, `"`, `\"`}
	var out []string
	for _, more := range [][]string{
		nil,
		{`/`, `\/`}, // PHP
		{`<`, `\u003c`, `>`, `\u003e`, `&`, `\u0026`},                               // Go, Rails
		{`<`, `\u003C`, `>`, `\u003E`, `&`, `\u0026`, `'`, `\u0027`, `+`, `\u002B`}, // .NET
	} {
		if spelt := strings.NewReplacer(slices.Concat(escapes, more)...).Replace(text); spelt != text {
			out = append(out, spelt)
		}
	}
	return out
}

// redact removes our credentials from an answer: some providers repeat them in
// their errors, and answers are stored and shown.
func redact(x *Exchange, secrets []string) {
	const mark = "[redacted]"
	for _, secret := range secrets {
		x.Evidence = strings.ReplaceAll(x.Evidence, secret, mark)
		x.Body = bytes.ReplaceAll(x.Body, []byte(secret), []byte(mark))
		for _, values := range x.Header {
			for i := range values {
				values[i] = strings.ReplaceAll(values[i], secret, mark)
			}
		}
	}
}
