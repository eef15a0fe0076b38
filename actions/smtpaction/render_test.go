package smtpaction_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/smtpaction"
)

// writes is an action that sends this message, to nobody in these tests.
func writes(t *testing.T, m smtpaction.Message) *smtpaction.Action {
	t.Helper()
	o := options(1)
	o.Message = func(actions.Call) (smtpaction.Message, error) { return m, nil }
	return action(t, o)
}

func render(t *testing.T, m smtpaction.Message) string {
	t.Helper()
	text, err := writes(t, m).Render(call(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The whole of a mail, byte by byte: nothing in it depends on the time.
func TestRender(t *testing.T) {
	t.Parallel()
	got := render(t, smtpaction.Message{
		From:    mail.Address{Name: `Ann "A" \ Li`, Address: "ann@shop.example"},
		To:      []mail.Address{{Name: "Dána", Address: "dana@example.test"}, {Address: "dana@example.test"}},
		Cc:      []mail.Address{{Address: "books@shop.example"}},
		ReplyTo: []mail.Address{{Address: "help@shop.example"}},
		Subject: "Rechnung für März", Text: "Ä\n.\r\nend", HTML: "<p>1 = 1</p>",
		Headers: map[string]string{"x-order": "501", "Auto-Submitted": "auto-generated"},
	})
	want := strings.ReplaceAll(`MAIL FROM:<ann@shop.example>
RCPT TO:<dana@example.test>
RCPT TO:<books@shop.example>
DATA
Date: Mon, 15 Jul 2024 09:01:27 +0000
From: "Ann \"A\" \\ Li" <ann@shop.example>
To: =?utf-8?b?RMOhbmE=?= <dana@example.test>, dana@example.test
Cc: books@shop.example
Reply-To: help@shop.example
Subject: =?utf-8?b?UmVjaG51bmcgZsO8ciBNw6Ryeg==?=
Message-ID: <0123456789abcdefghijklmnop@shop.example>
Auto-Submitted: auto-generated
X-Order: 501
MIME-Version: 1.0
Content-Type: multipart/alternative;
 boundary="=_BOUNDARY"

--=_BOUNDARY
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

=C3=84
.
end
--=_BOUNDARY
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<p>1 =3D 1</p>
--=_BOUNDARY--
`, "\n", "\r\n")
	_, boundary, _ := strings.Cut(got, `"=_`)
	boundary, _, _ = strings.Cut(boundary, `"`)
	if want = strings.ReplaceAll(want, "BOUNDARY", boundary); got != want || len(boundary) != 32 {
		t.Errorf("rendered:\n%s\nwant:\n%s", got, want)
	}
}

// Another operation is another mail, even with the same content.
func TestMailsOfTwoOperationsDiffer(t *testing.T) {
	t.Parallel()
	m, _ := invoice(actions.Call{})
	m.HTML = "<p>x</p>"
	a, first := writes(t, m), call(t, `{}`)
	second := first
	second.OperationID, second.ProviderKey = "0190b5a0-ffff-7000-8000-0123456789ab", "zzz3456789abcdefghijklmnop"
	one, err1 := a.Render(first)
	two, err2 := a.Render(second)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for _, part := range []string{"Message-ID", "boundary=", "Date"} {
		if line(one, part) == line(two, part) {
			t.Errorf("both have %q", line(one, part))
		}
	}
	o := options(1)
	o.Domain = "ids.example"
	text, err := action(t, o).Render(first)
	if err != nil || line(text, "Message-ID") != "Message-ID: <"+providerKey+"@ids.example>" {
		t.Errorf("with a domain: %q, %v", line(text, "Message-ID"), err)
	}
}

func line(text []byte, with string) string {
	for l := range strings.Lines(string(text)) {
		if strings.Contains(l, with) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// Texts that readers of headers would change are encoded.
func TestHeadersAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{
		"=?utf-8?q?not_encoded?=", "two  spaces", strings.Repeat("word  ", 30) + "end", strings.Repeat("x", 1200),
		strings.Repeat("word ", 300) + "end", strings.Repeat("ä", 300), " outer ", "",
	} {
		m, _ := invoice(actions.Call{})
		m.Subject = subject
		_, data, _ := strings.Cut(render(t, m), "DATA\r\n")
		read, err := mail.ReadMessage(strings.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		got, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
		if err != nil || got != strings.TrimSpace(subject) {
			t.Errorf("%.60q comes back as %.60q, %v", subject, got, err)
		}
		for l := range strings.Lines(data) {
			if len(l) > 78 {
				t.Errorf("%.60q: a line of %d bytes: %q", subject, len(l), l)
			}
		}
	}
}

// What must not be sent is refused, with the field's name and without values.
func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*smtpaction.Message)
		field  string
	}{
		"no sender":           {func(m *smtpaction.Message) { m.From = mail.Address{} }, "from"},
		"no recipient":        {func(m *smtpaction.Message) { m.To, m.Cc = nil, nil }, "to"},
		"too many":            {func(m *smtpaction.Message) { m.To = addresses(101) }, "to: 10"},
		"no body":             {func(m *smtpaction.Message) { m.Text = "" }, "text"},
		"address: CR LF":      {func(m *smtpaction.Message) { m.To[1].Address = "secret@example.test>\r\nRCPT TO:<x@y.test" }, "to[1]"},
		"address: LF":         {func(m *smtpaction.Message) { m.Cc[0].Address = "secret@example.test\n" }, "cc[0]"},
		"address: space":      {func(m *smtpaction.Message) { m.From.Address = "secret @example.test" }, "from"},
		"address: parameter":  {func(m *smtpaction.Message) { m.From.Address = "secret@example.test> SIZE=1" }, "from"},
		"address: no domain":  {func(m *smtpaction.Message) { m.To[0].Address = "secret" }, "to[0]"},
		"address: bad domain": {func(m *smtpaction.Message) { m.To[0].Address = "secret@-x..test" }, "to[0]"},
		"address: not ASCII":  {func(m *smtpaction.Message) { m.To[0].Address = "sécret@example.test" }, "to[0]"},
		"address: quoted":     {func(m *smtpaction.Message) { m.To[0].Address = `"secret x"@example.test` }, "to[0]"},
		"address: long":       {func(m *smtpaction.Message) { m.To[0].Address = strings.Repeat("s", 250) + "@example.test" }, "to[0]"},
		"name: CR LF":         {func(m *smtpaction.Message) { m.To[0].Name = "secret\r\nBcc: x@y.test" }, "to[0]"},
		"reply to: CR":        {func(m *smtpaction.Message) { m.ReplyTo = []mail.Address{{Name: "secret\r", Address: "a@b.test"}} }, "reply_to[0]"},
		"subject: LF":         {func(m *smtpaction.Message) { m.Subject = "secret\nBcc: x@y.test" }, "subject"},
		"subject: NUL":        {func(m *smtpaction.Message) { m.Subject = "secret\x00" }, "subject"},
		"subject: U+2028":     {func(m *smtpaction.Message) { m.Subject = "secret\u2028" }, "subject"},
		"subject: bad UTF-8":  {func(m *smtpaction.Message) { m.Subject = "secret\xff" }, "subject"},
		"subject: long":       {func(m *smtpaction.Message) { m.Subject = strings.Repeat("secret ", 5000) }, "subject"},
		"text: NUL":           {func(m *smtpaction.Message) { m.Text = "secret\x00" }, "text"},
		"html: bad UTF-8":     {func(m *smtpaction.Message) { m.HTML = "secret\xff" }, "html"},
		"text: huge":          {func(m *smtpaction.Message) { m.Text = strings.Repeat("secret\n", 2<<20) }, "bytes long"},
		"header: value":       {func(m *smtpaction.Message) { m.Headers = map[string]string{"X-A": "secret\r\n\r\nbody"} }, "headers.X-A"},
		"header: name":        {func(m *smtpaction.Message) { m.Headers = map[string]string{"X-A: 1\r\nBcc": "secret"} }, "headers"},
		"header: colon":       {func(m *smtpaction.Message) { m.Headers = map[string]string{"X:": "secret"} }, "headers"},
		"header: bcc":         {func(m *smtpaction.Message) { m.Headers = map[string]string{"BCC": "secret"} }, "headers"},
		"header: date":        {func(m *smtpaction.Message) { m.Headers = map[string]string{"date": "secret"} }, "headers"},
		"header: id":          {func(m *smtpaction.Message) { m.Headers = map[string]string{"Message-ID": "secret"} }, "headers"},
		"header: content":     {func(m *smtpaction.Message) { m.Headers = map[string]string{"content-type": "secret"} }, "headers"},
		"header: twice":       {func(m *smtpaction.Message) { m.Headers = map[string]string{"X-A": "secret", "x-a": "other"} }, "headers: X-A"},
	} {
		m, _ := invoice(actions.Call{})
		test.change(&m)
		a := writes(t, m)
		_, err := a.Render(call(t, `{}`))
		if err == nil || !strings.Contains(err.Error(), test.field) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q and no value", name, err, test.field)
			continue
		}
		out := execute(t, a, call(t, `{}`))
		wantKind(t, out, actions.Rejected, "not_renderable")
		if !out.Failure.Correctable || strings.ContainsAny(out.Failure.Evidence+out.Failure.Message, "\r\n") {
			t.Errorf("%s: %+v", name, out.Failure)
		}
	}
}

// Calls that make no stable mail.
func TestCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	m, _ := invoice(actions.Call{})
	for name, change := range map[string]func(*actions.Call){
		"no id":             func(c *actions.Call) { c.OperationID = "" },
		"an id of chance":   func(c *actions.Call) { c.OperationID = "b9a1f6a4-7a34-4a7e-9e0e-0123456789ab" },
		"no key":            func(c *actions.Call) { c.ProviderKey = "" },
		"a key with a sign": func(c *actions.Call) { c.ProviderKey = "a>b" },
	} {
		c := call(t, `{}`)
		change(&c)
		if _, err := writes(t, m).Render(c); err == nil {
			t.Errorf("%s: rendered", name)
		}
	}
	o := options(1)
	o.Message = func(actions.Call) (smtpaction.Message, error) {
		return smtpaction.Message{}, errors.New("no such invoice")
	}
	if _, err := action(t, o).Render(call(t, `{}`)); err == nil {
		t.Error("rendered")
	}
	wantKind(t, execute(t, action(t, o), call(t, `{}`)), actions.Rejected, "not_renderable")
}

// Whatever the texts are, a reader gets them back, and the lines keep to the
// limits.
func TestAnyTextComesBack(t *testing.T) {
	t.Parallel()
	oneLine := rapid.StringOfN(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(` ."=?_-äß€😀\<>,`))), 0, 200, -1).Filter(func(s string) bool {
		return strings.IndexFunc(s, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\uFFFD'
		}) < 0
	})
	body := rapid.OneOf(rapid.StringMatching(`([a-z.= äß€]{0,90}(\n|\r\n|\r)){0,6}[.a-z]{0,3}`), rapid.String()).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
	o := options(1)
	var m smtpaction.Message
	o.Message = func(actions.Call) (smtpaction.Message, error) { return m, nil }
	a, c := action(t, o), call(t, `{}`)
	rapid.Check(t, func(t *rapid.T) {
		m, _ = invoice(actions.Call{})
		m.Subject, m.To[0].Name = oneLine.Draw(t, "subject"), oneLine.Draw(t, "name")
		m.Headers = map[string]string{"X-Note": oneLine.Draw(t, "header")}
		m.Text, m.HTML = "t"+body.Draw(t, "text"), "h"+body.Draw(t, "html")
		rendered, err := a.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		_, data, _ := bytes.Cut(rendered, []byte("DATA\r\n"))
		for l := range bytes.Lines(data) {
			if len(l) > 1000 || !bytes.HasSuffix(l, []byte("\r\n")) || bytes.ContainsAny(l[:len(l)-2], "\r\n") {
				t.Fatalf("line %q", l)
			}
		}
		read, err := mail.ReadMessage(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		decode := func(s string) string {
			text, err := new(mime.WordDecoder).DecodeHeader(s)
			if err != nil {
				t.Fatalf("%q: %v", s, err)
			}
			return text
		}
		if got, want := decode(read.Header.Get("Subject")), strings.TrimSpace(m.Subject); got != want {
			t.Errorf("subject is %q, want %q\n%s", got, want, data)
		}
		if got, want := decode(read.Header.Get("X-Note")), strings.TrimSpace(m.Headers["X-Note"]); got != want {
			t.Errorf("header is %q, want %q", got, want)
		}
		to, err := read.Header.AddressList("To")
		if err != nil || len(to) != 2 || to[0].Address != m.To[0].Address || to[0].Name != strings.TrimSpace(m.To[0].Name) {
			t.Errorf("to is %v, %v, want %v\n%s", to, err, m.To, data)
		}
		_, parameters, err := mime.ParseMediaType(read.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		parts := multipart.NewReader(read.Body, parameters["boundary"])
		for _, want := range []string{m.Text, m.HTML} {
			part, err := parts.NextRawPart()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(quotedprintable.NewReader(part))
			if err != nil {
				t.Fatal(err)
			}
			want = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(want)
			if got := strings.ReplaceAll(string(text), "\r\n", "\n"); got != want {
				t.Errorf("body is %q, want %q", got, want)
			}
		}
		if _, err := parts.NextRawPart(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last part: %v", err)
		}
	})
}

func addresses(n int) []mail.Address {
	var list []mail.Address
	for i := range n {
		list = append(list, mail.Address{Address: "a" + strings.Repeat("b", i) + "@example.test"})
	}
	return list
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*smtpaction.Options){
		"no message":     func(o *smtpaction.Options) { o.Message = nil },
		"no dialer":      func(o *smtpaction.Options) { o.Dial = nil },
		"no host":        func(o *smtpaction.Options) { o.Host = "" },
		"host with port": func(o *smtpaction.Options) { o.Host = "localhost:25" },
		"port":           func(o *smtpaction.Options) { o.Port = 70000 },
		"plain text":     func(o *smtpaction.Options) { o.Host = "mail.example.test" },
		"hello":          func(o *smtpaction.Options) { o.Hello = "a\r\nMAIL" },
		"domain":         func(o *smtpaction.Options) { o.Domain = "a>b" },
		"unverified": func(o *smtpaction.Options) {
			o.TLS = insecure()
		},
		"keys":    func(o *smtpaction.Options) { o.Spec.Contract.Keys.Honoured = true },
		"look-up": func(o *smtpaction.Options) { o.Spec.Contract.Lookup.Authoritative = true },
		"timeout": func(o *smtpaction.Options) { o.ReplyTimeout = -1 },
	} {
		o := options(25)
		change(&o)
		if _, err := smtpaction.New(o); err == nil || !strings.Contains(err.Error(), "mail.invoice.send") {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := options(0)
	o.Spec.Timeout = 0
	for security, port := range map[smtpaction.Security]string{smtpaction.StartTLS: "587", smtpaction.ImplicitTLS: "465"} {
		o.Security = security
		o.Dial = dialed(t, net.JoinHostPort("localhost", port))
		a := action(t, o)
		wantKind(t, execute(t, a, call(t, `{}`)), actions.NotApplied, "not_connected")
		if a.Spec().Timeout != smtpaction.DefaultTimeout {
			t.Errorf("timeout is %s", a.Spec().Timeout)
		}
		if _, err := actions.NewRegistry(a); err != nil {
			t.Error(err)
		}
	}
	if _, ok := any(action(t, options(1))).(actions.Looker); ok {
		t.Error("SMTP has no look-up")
	}
	bad := errors.New("no")
	o = options(1)
	o.Check = func(actions.Arguments) error { return bad }
	if err := action(t, o).Validate(actions.Arguments{}); !errors.Is(err, bad) {
		t.Errorf("validate: %v", err)
	}
	if err := action(t, options(1)).Validate(actions.Arguments{}); err != nil {
		t.Errorf("validate: %v", err)
	}
}
