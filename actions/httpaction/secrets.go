package httpaction

import (
	"bytes"
	"net/http"
	"strings"
)

// minSecretBytes is the shortest secret that is looked for: a shorter one
// would match innocent text.
const minSecretBytes = 8

// secretsOf returns the values of a credential, and what follows the scheme in
// "Bearer …".
func secretsOf(credential http.Header) []string {
	var secrets []string
	add := func(s string) {
		if len(s) >= minSecretBytes {
			secrets = append(secrets, s)
		}
	}
	for _, values := range credential {
		for _, value := range values {
			if _, token, ok := strings.Cut(value, " "); ok {
				add(token)
			}
			add(value)
		}
	}
	return secrets
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
