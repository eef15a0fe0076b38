package smtpaction

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/actions"
)

// letter is a mail that can be sent.
type letter struct {
	from      string
	to        []string
	messageID string // with its angle brackets
	data      []byte // the message, CRLF at the end of each line, without dot-stuffing
}

// Render returns what is said to the server about this mail: sender,
// recipients and the message. Its introduction and the credentials are not in it.
func (a *Action) Render(call actions.Call) ([]byte, error) {
	l, err := a.letter(call)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "MAIL FROM:<%s>\r\n", l.from)
	for _, to := range l.to {
		fmt.Fprintf(&b, "RCPT TO:<%s>\r\n", to)
	}
	b.WriteString("DATA\r\n")
	b.Write(l.data)
	return b.Bytes(), nil
}

// letter renders the mail of a call.
func (a *Action) letter(call actions.Call) (*letter, error) {
	made, err := madeAt(call.OperationID)
	if err != nil {
		return nil, err
	}
	m, err := a.o.Message(call)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	domain := a.o.Domain
	if domain == "" {
		domain = domainOf(m.From.Address)
	}
	if call.ProviderKey == "" || strings.ContainsFunc(call.ProviderKey, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		return nil, errors.New("the call has no provider key, which names the mail")
	}
	l := &letter{from: m.From.Address, to: m.recipients(), messageID: "<" + call.ProviderKey + "@" + domain + ">"}
	l.data = m.render(made, l.messageID, boundary(call))
	if len(l.data) > MaxMessageBytes {
		return nil, fmt.Errorf("the mail is %d bytes long, want at most %d", len(l.data), MaxMessageBytes)
	}
	return l, checkLines(l.data)
}

// madeAt is the time in an operation's id. It stands in the Date of the mail:
// RFC 5322 demands one, and the time of an attempt would make another mail of
// each.
func madeAt(operationID string) (time.Time, error) {
	id, err := uuid.Parse(operationID)
	if err != nil || id.Version() != 7 {
		return time.Time{}, errors.New("the operation's id is no UUID of version 7, whose time is the mail's date")
	}
	return time.Unix(id.Time().UnixTime()).UTC(), nil
}

// boundary holds "=_", which quoted-printable text never does.
func boundary(call actions.Call) string {
	sum := sha256.Sum256([]byte("boundary\x00" + call.Tenant + "\x00" + call.OperationID))
	return "=_" + hex.EncodeToString(sum[:16])
}

// render writes the message. The order of its fields is fixed.
func (m *Message) render(made time.Time, messageID, boundary string) []byte {
	var b bytes.Buffer
	field := func(name, value string) { b.WriteString(fold(name, value)) }
	field("Date", made.Format("Mon, 02 Jan 2006 15:04:05 +0000"))
	field("From", addressList([]mail.Address{m.From}))
	for _, list := range []struct {
		name string
		of   []mail.Address
	}{{"To", m.To}, {"Cc", m.Cc}, {"Reply-To", m.ReplyTo}} {
		if len(list.of) > 0 {
			field(list.name, addressList(list.of))
		}
	}
	field("Subject", unstructured(m.Subject, longestWord))
	field("Message-ID", messageID)
	headers := map[string]string{}
	for name, value := range m.Headers {
		headers[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field(name, unstructured(headers[name], maxLineBytes))
	}
	field("MIME-Version", "1.0")
	switch {
	case m.HTML == "":
		part(&b, "text/plain", m.Text)
	case m.Text == "":
		part(&b, "text/html", m.HTML)
	default:
		field("Content-Type", `multipart/alternative; boundary="`+boundary+`"`)
		b.WriteString("\r\n--" + boundary + "\r\n")
		part(&b, "text/plain", m.Text)
		b.WriteString("--" + boundary + "\r\n")
		part(&b, "text/html", m.HTML)
		b.WriteString("--" + boundary + "--\r\n")
	}
	return b.Bytes()
}

// part writes a body with its header, ended by a line break.
func part(b *bytes.Buffer, mediaType, text string) {
	b.WriteString("Content-Type: " + mediaType + "; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	w := quotedprintable.NewWriter(b)
	_, _ = w.Write([]byte(text)) // writing to memory cannot fail
	_ = w.Close()
	b.WriteString("\r\n")
}

// maxLineBytes bounds a line without its end (RFC 5322, 2.1.1).
const maxLineBytes = 998

// checkLines refuses lines that servers cut, and line breaks that only some
// servers see: they would end the message where others do not.
func checkLines(data []byte) error {
	for line := range bytes.Lines(data) {
		text, ok := bytes.CutSuffix(line, []byte("\r\n"))
		if !ok || bytes.ContainsAny(text, "\r\n") {
			return errors.New("the mail would hold a line break other than CR LF")
		}
		if len(text) > maxLineBytes {
			return fmt.Errorf("the mail would hold a line of %d bytes, want at most %d", len(text), maxLineBytes)
		}
	}
	return nil
}
