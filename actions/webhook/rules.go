package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scheme is how a provider signs its calls. The zero value is none, and New
// refuses it.
type Scheme int

const (
	_ Scheme = iota
	// Standard is Standard Webhooks 1.0 with symmetric keys (v1): headers
	// webhook-id, webhook-timestamp and webhook-signature, or the same with
	// svix- before. Secrets are base64, with or without whsec_ before.
	Standard
	// Stripe is the header Stripe-Signature with t and v1. Secrets are used as
	// they are, whsec_ included.
	Stripe
	// GitHub is the header X-Hub-Signature-256. It carries no time.
	GitHub
	// HMAC is what Rules say.
	HMAC
)

// Algorithm is the hash of an HMAC.
type Algorithm int

// The algorithms. SHA1 is for providers that have nothing better; as an HMAC it
// is not broken.
const (
	SHA256 Algorithm = iota
	SHA512
	SHA1
)

// Encoding is how a signature is written.
type Encoding int

// The encodings: hexadecimal of either case, and standard base64 with padding.
const (
	Hex Encoding = iota
	Base64
)

// PartKind is a piece of what is signed.
type PartKind int

const (
	// Body is the body, byte for byte.
	Body PartKind = iota
	// URL is the whole URL as the provider was told to call it.
	URL
	// Method is the HTTP method.
	Method
	// Timestamp is the value of Rules.TimestampHeader.
	Timestamp
	// Header is the value of the header that is Part.Text.
	Header
	// Text is Part.Text itself, a separator for example.
	Text
	// Form is each name and value of a form body, sorted, nothing between them,
	// equal pairs once (Twilio's).
	Form
)

// Part is one piece of what is signed; the pieces are put together in order.
type Part struct {
	Kind PartKind
	Text string // of Header: its name; of Text: itself
}

// ParsePart reads a part as files name it: body, url, method, timestamp, form,
// "header:X-Name" or "text:.".
func ParsePart(s string) (Part, error) {
	if name, ok := strings.CutPrefix(s, "header:"); ok && name != "" {
		return Part{Kind: Header, Text: name}, nil
	}
	if text, ok := strings.CutPrefix(s, "text:"); ok && text != "" {
		return Part{Kind: Text, Text: text}, nil
	}
	switch s {
	case "body":
		return Part{Kind: Body}, nil
	case "url":
		return Part{Kind: URL}, nil
	case "method":
		return Part{Kind: Method}, nil
	case "timestamp":
		return Part{Kind: Timestamp}, nil
	case "form":
		return Part{Kind: Form}, nil
	}
	return Part{}, fmt.Errorf("webhook: signed content %q: want body, url, method, timestamp, form, header:NAME or text:TEXT", s)
}

// DefaultTolerance is how far the time of a message may be from ours.
const DefaultTolerance = 5 * time.Minute

// Rules say how calls are verified.
type Rules struct {
	Scheme Scheme
	// Tolerance is how far the time of a message may be from the receiver's, in
	// both directions; default DefaultTolerance.
	Tolerance time.Duration

	// The rest is for HMAC alone.

	Header    string // with the signature
	Prefix    string // before each signature: "sha256="
	Algorithm Algorithm
	Encoding  Encoding
	// Content is what is signed, in order; default: the body.
	Content []Part
	// TimestampHeader has the time of the message: seconds or milliseconds since
	// 1970, or RFC 3339; which of them cannot be mistaken. Empty: the provider
	// sends none, and only the ids of events tell replays.
	TimestampHeader string
}

// check reports everything that is wrong with rules.
func (r Rules) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("webhook: "+format, args...)) }
	if r.Tolerance < 0 {
		bad("tolerance %s is negative", r.Tolerance)
	}
	switch r.Scheme {
	case Standard, Stripe, GitHub:
		if r.Header != "" || r.Prefix != "" || r.TimestampHeader != "" || len(r.Content) > 0 || r.Algorithm != SHA256 || r.Encoding != Hex {
			bad("header, prefix, algorithm, encoding, content and timestamp header are for the hmac scheme; this one has its own")
		}
		return errors.Join(errs...)
	case HMAC:
	default:
		bad("no such signature scheme (%d)", r.Scheme)
		return errors.Join(errs...)
	}
	if r.Header == "" {
		bad("the header that has the signature is missing")
	}
	if r.Algorithm < SHA256 || r.Algorithm > SHA1 {
		bad("no such algorithm (%d)", r.Algorithm)
	}
	if r.Encoding < Hex || r.Encoding > Base64 {
		bad("no such encoding (%d)", r.Encoding)
	}
	for _, p := range r.Content {
		switch p.Kind {
		case Header, Text:
			if p.Text == "" {
				bad("a header or text of the signed content is empty")
			}
		case Body, URL, Method, Timestamp, Form:
		default:
			bad("no such part of signed content (%d)", p.Kind)
		}
	}
	has := func(kind PartKind) bool {
		return slices.ContainsFunc(r.Content, func(p Part) bool { return p.Kind == kind })
	}
	if len(r.Content) > 0 && !has(Body) && !has(Form) {
		bad("the signed content has no body: anybody could send another one under the same signature")
	}
	signed := has(Timestamp) || slices.ContainsFunc(r.Content, func(p Part) bool {
		return p.Kind == Header && strings.EqualFold(p.Text, r.TimestampHeader)
	})
	switch {
	case r.TimestampHeader == "" && has(Timestamp):
		bad("the timestamp is signed, but no header is named that has it")
	case r.TimestampHeader != "" && !signed:
		bad("the timestamp of %s is not in the signed content: anybody could make an old message young", r.TimestampHeader)
	}
	return errors.Join(errs...)
}
