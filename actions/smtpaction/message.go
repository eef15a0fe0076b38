package smtpaction

import (
	"errors"
	"fmt"
	"net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a message.
const (
	// MaxRecipients is how many a server must accept in one mail (RFC 5321,
	// 4.5.3.1.8).
	MaxRecipients = 100
	// MaxMessageBytes bounds a rendered message.
	MaxMessageBytes = 10 << 20

	maxAddressBytes = 254
	maxHeaders      = 50
	maxHeaderBytes  = 8 << 10 // of one value
)

// Message is one mail. Text is UTF-8; no field but Text and HTML may hold a line
// break or another control character.
type Message struct {
	From mail.Address // in the header, and to the server
	// To and Cc are the recipients: at least one, at most MaxRecipients.
	To, Cc  []mail.Address
	ReplyTo []mail.Address
	Subject string
	// Text and HTML are the body; both make alternatives. At least one is set.
	Text, HTML string
	// Headers are further fields, such as Auto-Submitted. Those that say who,
	// when and what, or that servers write, cannot be set.
	Headers map[string]string
}

// addressPattern is what SMTP can carry without extensions, less quoted local
// parts. Domains beyond ASCII are written in their ASCII form (xn--…).
var addressPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@([A-Za-z0-9.-]+)$")

var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,62}$`)

// reserved reports whether a header field is ours or a server's.
func reserved(name string) bool {
	for _, prefix := range []string{"Content-", "Mime-", "Resent-", "Arc-", "Dkim-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"From", "Sender", "To", "Cc", "Bcc", "Reply-To", "Subject", "Date", "Message-Id",
		"Received", "Return-Path", "Delivered-To", "Authentication-Results",
	}, name)
}

// check returns what is wrong with a message. Its texts name fields and never
// repeat values.
func (m *Message) check() error {
	if err := checkAddress(m.From); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	for _, list := range []struct {
		field string
		of    []mail.Address
	}{{"to", m.To}, {"cc", m.Cc}, {"reply_to", m.ReplyTo}} {
		for i, a := range list.of {
			if err := checkAddress(a); err != nil {
				return fmt.Errorf("%s[%d]: %w", list.field, i, err)
			}
		}
	}
	if err := checkLine(m.Subject); err != nil {
		return fmt.Errorf("subject: %w", err)
	}
	seen := map[string]bool{}
	for name, value := range m.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if !headerName.MatchString(name) || reserved(canonical) {
			return fmt.Errorf("headers: %.64q cannot be set", name)
		}
		if seen[canonical] {
			return fmt.Errorf("headers: %s is set twice", canonical)
		}
		seen[canonical] = true
		if err := checkLine(value); err != nil {
			return fmt.Errorf("headers.%s: %w", canonical, err)
		}
	}
	recipients := len(m.recipients())
	switch {
	case recipients == 0:
		return errors.New("to: there is no recipient")
	case recipients > MaxRecipients:
		return fmt.Errorf("to: %d recipients, want at most %d", recipients, MaxRecipients)
	case len(m.ReplyTo) > MaxRecipients:
		return fmt.Errorf("reply_to: %d addresses, want at most %d", len(m.ReplyTo), MaxRecipients)
	case len(m.Headers) > maxHeaders:
		return fmt.Errorf("headers: %d, want at most %d", len(m.Headers), maxHeaders)
	case m.Text == "" && m.HTML == "":
		return errors.New("text: there is no body")
	}
	for field, body := range map[string]string{"text": m.Text, "html": m.HTML} {
		if !utf8.ValidString(body) || strings.ContainsRune(body, 0) {
			return fmt.Errorf("%s: want UTF-8 without NUL", field)
		}
	}
	return nil
}

func checkAddress(a mail.Address) error {
	found := addressPattern.FindStringSubmatch(a.Address)
	if found == nil || len(a.Address) > maxAddressBytes || !domainPattern.MatchString(found[2]) {
		return errors.New("want an address such as dana@example.com, in ASCII")
	}
	return checkLine(a.Name)
}

// checkLine refuses what could begin another header field, or hide in one.
func checkLine(s string) error {
	if len(s) > maxHeaderBytes {
		return fmt.Errorf("%d bytes, want at most %d", len(s), maxHeaderBytes)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
		return errors.New("want one line of UTF-8, without control characters")
	}
	return nil
}

// recipients are the addresses of To and Cc, each once.
func (m *Message) recipients() []string {
	var all []string
	for _, a := range slices.Concat(m.To, m.Cc) {
		if !slices.Contains(all, a.Address) {
			all = append(all, a.Address)
		}
	}
	return all
}

// domainOf is the right side of a checked address.
func domainOf(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }
