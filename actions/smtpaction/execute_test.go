package smtpaction_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/smtpaction"
)

const (
	operationID = "0190b5a0-1b2c-7000-8000-0123456789ab" // of 2024-07-15 09:01:27 UTC
	providerKey = "0123456789abcdefghijklmnop"
	messageID   = "<" + providerKey + "@shop.example>"
)

func spec() actions.Spec {
	return actions.Spec{
		Type: "mail.invoice.send", Version: "1", Description: "Send an invoice.", Schema: json.RawMessage(`{"type": "object"}`),
		Contract: actions.Contract{Provider: "mail", Version: "1"}, Timeout: 20 * time.Second,
	}
}

func call(t *testing.T, arguments string) actions.Call {
	t.Helper()
	args, err := actions.ParseArguments([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return actions.Call{Tenant: "acme", OperationID: operationID, ProviderKey: providerKey, Arguments: args}
}

// invoice is the mail of the tests.
func invoice(actions.Call) (smtpaction.Message, error) {
	return smtpaction.Message{
		From: mail.Address{Name: "Shop", Address: "shop@shop.example"},
		To:   []mail.Address{{Address: "dana@example.test"}, {Address: "li@example.test"}},
		Cc:   []mail.Address{{Address: "books@shop.example"}}, Subject: "Invoice 501", Text: "Please pay.\n.\nThank you.",
	}, nil
}

// options lead to a server on this machine, in plain text.
func options(port int) smtpaction.Options {
	return smtpaction.Options{
		Spec: spec(), Message: invoice, Host: "localhost", Port: port, Security: smtpaction.PlainText,
		Dial: (&net.Dialer{}).DialContext, ReplyTimeout: 10 * time.Second,
	}
}

func action(t *testing.T, o smtpaction.Options) *smtpaction.Action {
	t.Helper()
	a, err := smtpaction.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func execute(t *testing.T, a *smtpaction.Action, c actions.Call) actions.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), a.Spec().Timeout)
	defer cancel()
	return a.Execute(ctx, c)
}

func wantKind(t *testing.T, o actions.Outcome, kind actions.Kind, code string) {
	t.Helper()
	if o.Kind != kind || o.Failure.Code != code {
		t.Fatalf("outcome is %s %+v, want %s %s", o.Kind, o.Failure, kind, code)
	}
}

// Each way in which a conversation can end, what it proves, and what the server
// holds then.
func TestConversations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script   script
		kind     actions.Kind
		code     string
		evidence string
		held     int
	}{
		"taken":                   {script{}, actions.Applied, "", "", 1},
		"taken, forwarded":        {script{"RCPT 1": "251 2.1.5 Will forward"}, actions.Applied, "", "", 1},
		"taken, many lines":       {script{"dot": "250-first\n250 2.0.0 Ok: queued as 4F1B2A"}, actions.Applied, "", "", 1},
		"greeting: refused":       {script{"greeting": "554 5.3.2 No"}, actions.NotApplied, "not_connected", "greeting: 554 5.3.2; no mail was offered", 0},
		"greeting: busy":          {script{"greeting": "421 4.3.2 Later"}, actions.NotApplied, "not_connected", "greeting: 421 4.3.2", 0},
		"greeting: dropped":       {script{"greeting": hangUp}, actions.NotApplied, "not_connected", "greeting: EOF", 0},
		"greeting: none":          {script{"greeting": silent}, actions.NotApplied, "not_connected", "greeting: no reply in time", 0},
		"greeting: another world": {script{"greeting": "HTTP/1.1 400 Bad Request"}, actions.NotApplied, "not_connected", "cannot be read", 0},
		"EHLO: refused":           {script{"EHLO": "502 5.5.1 What?"}, actions.NotApplied, "not_connected", "EHLO: 502 5.5.1", 0},
		"MAIL: later":             {script{"MAIL": "450 4.1.8 Later"}, actions.NotApplied, "not_accepted", "MAIL: 450 4.1.8; the mail was not sent", 0},
		"MAIL: refused":           {script{"MAIL": "550 5.1.8 No"}, actions.Rejected, "sender_refused", "MAIL: 550 5.1.8", 0},
		"MAIL: who are you":       {script{"MAIL": "530 5.7.0 Authenticate"}, actions.NotApplied, "not_accepted", "MAIL: 530 5.7.0", 0},
		"MAIL: dropped":           {script{"MAIL": hangUp}, actions.NotApplied, "not_accepted", "MAIL: EOF", 0},
		"MAIL: two replies":       {script{"MAIL": "250 Ok\n250 Ok"}, actions.NotApplied, "not_accepted", "out of turn", 0},
		"RCPT: later":             {script{"RCPT 3": "452 4.5.3 Too many"}, actions.NotApplied, "not_accepted", "RCPT 3 of 3: 452 4.5.3", 0},
		"RCPT: refused":           {script{"RCPT 2": "550 5.1.1 <li@example.test> unknown"}, actions.Rejected, "recipient_refused", "RCPT 2 of 3: 550 5.1.1; the mail was not sent", 0},
		"RCPT: dropped":           {script{"RCPT 2": hangUp}, actions.NotApplied, "not_accepted", "RCPT 2 of 3", 0},
		"RCPT: silent":            {script{"RCPT 1": silent}, actions.NotApplied, "not_accepted", "no reply in time", 0},
		"DATA: later":             {script{"DATA": "451 4.3.0 Later"}, actions.NotApplied, "not_accepted", "DATA: 451 4.3.0", 0},
		"DATA: refused":           {script{"DATA": "554 5.5.1 No"}, actions.Rejected, "mail_refused", "DATA: 554 5.5.1", 0},
		"DATA: an odd success":    {script{"DATA": "250 Ok"}, actions.NotApplied, "not_accepted", "DATA: 250", 0},
		"DATA: dropped":           {script{"DATA": hangUp}, actions.NotApplied, "not_accepted", "DATA: EOF", 0},
		"DATA: and the answer":    {script{"DATA": "354 Go\n250 2.0.0 Ok: queued as 1"}, actions.NotApplied, "not_accepted", "out of turn", 0},
		"dot: later":              {script{"dot": "451 4.3.0 Later"}, actions.NotApplied, "not_accepted", "final dot: 451 4.3.0", 0},
		"dot: shutting down":      {script{"dot": "421 4.3.2 Bye"}, actions.NotApplied, "not_accepted", "final dot: 421 4.3.2", 0},
		"dot: refused":            {script{"dot": "554 5.7.1 Spam from dana@example.test"}, actions.Rejected, "mail_refused", "final dot: 554 5.7.1", 0},
		"dot: dropped":            {script{"dot": hangUp}, actions.Ambiguous, "no_reply", "final dot: EOF; look for Message-ID " + messageID, 1},
		"dot: silent":             {script{"dot": silent}, actions.Ambiguous, "no_reply", messageID, 1},
		"dot: garbage":            {script{"dot": "banana"}, actions.Ambiguous, "no_reply", "cannot be read", 1},
		"dot: an odd code":        {script{"dot": "354 Go on"}, actions.Ambiguous, "no_reply", "final dot: 354", 1},
		"dot: codes at odds":      {script{"dot": "250-Ok\n451 no"}, actions.Ambiguous, "no_reply", "cannot be read", 1},
		"dot: a code of none":     {script{"dot": "999 Ok"}, actions.Ambiguous, "no_reply", "cannot be read", 1},
		"dot: endless line":       {script{"dot": "250 " + strings.Repeat("x", 5000)}, actions.Ambiguous, "no_reply", "cannot be read", 1},
		"dot: endless reply":      {script{"dot": strings.Repeat("250-Ok\n", 500) + "250 Ok"}, actions.Ambiguous, "no_reply", "cannot be read", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := serve(t, test.script, nil, false)
			o := options(v.port())
			switch {
			case name == "dot: silent":
				o.Spec.Timeout = 2 * time.Second
			case strings.Contains(fmt.Sprint(test.script), silent):
				o.ReplyTimeout = 500 * time.Millisecond
			}
			out := execute(t, action(t, o), call(t, `{}`))
			wantKind(t, out, test.kind, test.code)
			if !strings.Contains(out.Failure.Evidence, test.evidence) || test.code != "" && out.Failure.Message == "" {
				t.Errorf("failure is %+v, want evidence %q", out.Failure, test.evidence)
			}
			if text := fmt.Sprint(out.Failure); strings.Contains(text, "example.test") {
				t.Errorf("the failure names an address: %s", text)
			}
			if got := v.taken(); len(got) != test.held {
				t.Errorf("the server holds %d mails, want %d: %q; heard %s", len(got), test.held, got, v.heard())
			}
			if out.Kind == actions.Rejected && out.Failure.Correctable != (test.code != "sender_refused") {
				t.Errorf("correctable is %v", out.Failure.Correctable)
			}
		})
	}
}

// The connection breaks while the mail is on its way: no dot, no mail.
func TestBrokenInTheMail(t *testing.T) {
	t.Parallel()
	v := serve(t, script{"mail": hangUp}, nil, false)
	o := options(v.port())
	o.Message = func(c actions.Call) (smtpaction.Message, error) {
		m, err := invoice(c)
		m.Text = strings.Repeat("0123456789", 400)
		return m, err
	}
	// A write after the other side has closed succeeds at first; only a
	// connection that counts writes shows whether the dot was among them.
	var dots int
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &brokenConn{Conn: conn, dots: &dots}, err
	}
	out := execute(t, action(t, o), call(t, `{}`))
	wantKind(t, out, actions.NotApplied, "not_accepted")
	if dots != 0 || len(v.taken()) != 0 {
		t.Errorf("%d dots were written, %d mails taken", dots, len(v.taken()))
	}
}

// brokenConn fails in the middle of a long write, and counts dots.
type brokenConn struct {
	net.Conn
	dots *int
}

func (c *brokenConn) Write(b []byte) (int, error) {
	if string(b) == ".\r\n" {
		*c.dots++
	}
	if len(b) > 1000 {
		n, _ := c.Conn.Write(b[:1000])
		return n, errors.New("broken pipe")
	}
	return c.Conn.Write(b)
}

// A dot that was handed to the connection counts as sent, whatever the
// connection says.
func TestDotThatFails(t *testing.T) {
	t.Parallel()
	v := serve(t, script{}, nil, false)
	o := options(v.port())
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return dotlessConn{conn}, err
	}
	wantKind(t, execute(t, action(t, o), call(t, `{}`)), actions.Ambiguous, "no_reply")
}

type dotlessConn struct{ net.Conn }

func (c dotlessConn) Write(b []byte) (int, error) {
	if string(b) == ".\r\n" {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(b)
}

// The receipt of a mail, and what the server got.
func TestReceipt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ reply, reference, json string }{
		"queue id":    {"250 2.0.0 Ok: queued as 4F1B2A", "Ok: queued as 4F1B2A", `{"message_id":"\u003c` + messageID[1:len(messageID)-1] + `\u003e","reply":"250 2.0.0 Ok: queued as 4F1B2A"}`},
		"nothing":     {"250", messageID, `{"message_id":"\u003c` + messageID[1:len(messageID)-1] + `\u003e","reply":"250"}`},
		"bare":        {"250 2.0.0 Ok", messageID, `{"message_id":"\u003c` + messageID[1:len(messageID)-1] + `\u003e","reply":"250 2.0.0 Ok"}`},
		"strange":     {"250 2.0.0 \x1b[31mqueued\u202e\tas\xff 7", "[31mqueued as\uFFFD 7", `{"message_id":"\u003c` + messageID[1:len(messageID)-1] + `\u003e","reply":"250 2.0.0 [31mqueued as` + "\uFFFD" + ` 7"}`},
		"other class": {"252 7", "7", `{"message_id":"\u003c` + messageID[1:len(messageID)-1] + `\u003e","reply":"252 7"}`},
	} {
		v := serve(t, script{"dot": test.reply}, nil, false)
		out := execute(t, action(t, options(v.port())), call(t, `{}`))
		wantKind(t, out, actions.Applied, "")
		if out.Receipt.Reference != test.reference || string(out.Receipt.JSON) != test.json {
			t.Errorf("%s: receipt is %q %s, want %q %s", name, out.Receipt.Reference, out.Receipt.JSON, test.reference, test.json)
		}
		want := "EHLO shop.example; MAIL FROM:<shop@shop.example>; RCPT TO:<dana@example.test>; RCPT TO:<li@example.test>; RCPT TO:<books@shop.example>; DATA"
		if got := strings.TrimSuffix(v.heard(), "; QUIT"); got != want {
			t.Errorf("the server heard %s, want %s", got, want)
		}
	}
}

// What is rendered is what is sent, and the same at every attempt.
func TestRenderedIsSent(t *testing.T) {
	t.Parallel()
	v := serve(t, script{}, nil, false)
	a, c := action(t, options(v.port())), call(t, `{}`)
	rendered, err := a.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wantKind(t, execute(t, a, c), actions.Applied, "")
	}
	_, data, _ := strings.Cut(string(rendered), "DATA\r\n")
	for _, got := range v.taken() {
		if got != data {
			t.Errorf("sent:\n%s\nrendered:\n%s", got, data)
		}
	}
	if n := len(v.taken()); n != 2 {
		t.Errorf("%d mails, want 2", n)
	}
}

// Nobody there, a dialer that refuses, and no time.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	out := execute(t, action(t, options(port)), call(t, `{}`))
	wantKind(t, out, actions.NotApplied, "not_connected")
	if !strings.Contains(out.Failure.Evidence, "connection refused") {
		t.Errorf("evidence is %q", out.Failure.Evidence)
	}
	v := serve(t, script{}, nil, false)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	wantKind(t, action(t, options(v.port())).Execute(ctx, call(t, `{}`)), actions.NotApplied, "not_connected")
	if len(v.taken()) != 0 {
		t.Error("a mail without time")
	}
}

// When most of the time is gone before the dot, it is not sent: better no mail
// than one whose fate is not known.
func TestNoTimeForTheAnswer(t *testing.T) {
	t.Parallel()
	v := serve(t, script{}, nil, false)
	o := options(v.port())
	o.Spec.Timeout = 4 * time.Second
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return slowConn{conn, ctx}, err
	}
	wantKind(t, execute(t, action(t, o), call(t, `{}`)), actions.NotApplied, "too_late")
	if len(v.taken()) != 0 {
		t.Error("the mail was sent")
	}
}

// slowConn writes the mail when seven eighths of the time are gone.
type slowConn struct {
	net.Conn
	ctx context.Context
}

func (c slowConn) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "Date:") {
		deadline, _ := c.ctx.Deadline()
		<-time.After(time.Until(deadline) - 900*time.Millisecond)
	}
	return c.Conn.Write(b)
}

// An attempt that is called off ends at once, and says what that leaves.
func TestCalledOff(t *testing.T) {
	t.Parallel()
	for step, kind := range map[string]actions.Kind{"RCPT 1": actions.NotApplied, "dot": actions.Ambiguous} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			v := serve(t, script{step: silent}, nil, false)
			o := options(v.port())
			o.ReplyTimeout = time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			a, c := action(t, o), call(t, `{}`)
			done := make(chan actions.Outcome, 1)
			go func() { done <- a.Execute(ctx, c) }()
			deadline := time.After(10 * time.Second)
			for step == "dot" && len(v.taken()) == 0 || !strings.Contains(v.heard(), "RCPT") {
				select {
				case <-deadline:
					t.Fatalf("heard %s", v.heard())
				case <-time.After(5 * time.Millisecond):
				}
			}
			cancel()
			select {
			case out := <-done:
				if out.Kind != kind || !strings.Contains(out.Failure.Evidence, "cancelled") {
					t.Errorf("outcome is %s %+v", out.Kind, out.Failure)
				}
			case <-deadline:
				t.Error("it goes on")
			}
		})
	}
}

// A mail beyond the server's limit is refused before it is offered.
func TestTooLargeForTheServer(t *testing.T) {
	t.Parallel()
	v := serve(t, script{}, nil, false)
	o := options(v.port())
	o.Message = func(c actions.Call) (smtpaction.Message, error) {
		m, err := invoice(c)
		m.Text = strings.Repeat("0123456789", 500)
		return m, err
	}
	out := execute(t, action(t, o), call(t, `{}`))
	wantKind(t, out, actions.Rejected, "too_large")
	if !out.Failure.Correctable || strings.Contains(v.heard(), "MAIL") {
		t.Errorf("%+v; heard %s", out.Failure, v.heard())
	}
}
