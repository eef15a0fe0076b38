package smtpaction

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// session is a conversation with a server. It belongs to one attempt.
type session struct {
	ctx        context.Context // of the attempt that it lives in
	conn       net.Conn
	reader     *bufio.Reader
	wait       time.Duration // for each reply but the last
	extensions map[string]string
	stop       func() bool
}

// refusal is a reply that is not the one that was wanted.
type refusal struct{ reply reply }

func (r *refusal) Error() string { return r.reply.String() }

var (
	// errOutOfStep: the server said something before it was asked. Its later
	// replies could be taken for answers to other questions.
	errOutOfStep = errors.New("the server speaks out of turn")
	errNoTLS     = errors.New("the server offers no STARTTLS")
	errNoAuth    = errors.New("the server offers neither AUTH PLAIN nor AUTH LOGIN")
	errRemote    = errors.New("plain text to an address that is not on this machine")
)

// stepError says where a conversation ended before the mail was offered.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + describe(e.err) }
func (e *stepError) Unwrap() error { return e.err }

// connect opens a session that is protected, introduced and authenticated. Its
// errors are *stepError.
func (a *Action) connect(ctx context.Context, hello string) (*session, error) {
	conn, err := a.o.Dial(ctx, "tcp", a.address())
	if err != nil {
		return nil, &stepError{"connect", err}
	}
	s := &session{ctx: ctx, wait: a.o.ReplyTimeout}
	s.use(conn)
	if step, err := a.begin(s, hello); err != nil {
		s.close()
		return nil, &stepError{step, err}
	}
	return s, nil
}

// begin does what comes before a mail, and names the step that failed.
func (a *Action) begin(s *session, hello string) (step string, err error) {
	if a.o.Security == PlainText {
		if address, ok := s.conn.RemoteAddr().(*net.TCPAddr); !ok || !address.IP.IsLoopback() {
			return "connect", errRemote
		}
	}
	if a.o.Security == ImplicitTLS {
		if err := s.encrypt(a.tls); err != nil {
			return "TLS", err
		}
	}
	if _, err := s.read(220); err != nil {
		return "greeting", err
	}
	if err := s.hello(hello); err != nil {
		return "EHLO", err
	}
	if a.o.Security == StartTLS {
		if _, ok := s.extensions["STARTTLS"]; !ok {
			return "STARTTLS", errNoTLS
		}
		if _, err := s.say("STARTTLS", 220); err != nil {
			return "STARTTLS", err
		}
		// What was sent along in plain text is not the server's.
		if s.reader.Buffered() > 0 {
			return "STARTTLS", errOutOfStep
		}
		if err := s.encrypt(a.tls); err != nil {
			return "TLS", err
		}
		if err := s.hello(hello); err != nil {
			return "EHLO", err
		}
	}
	if a.o.Credential == nil {
		return "", nil
	}
	credential, err := a.o.Credential(s.ctx)
	if err != nil {
		return "credential", errors.New("cannot be read")
	}
	return "AUTH", s.authenticate(credential)
}

// use takes a connection over. It is closed when the attempt's time is up.
func (s *session) use(conn net.Conn) {
	if s.stop != nil {
		s.stop()
	}
	s.conn, s.reader = conn, bufio.NewReaderSize(conn, maxReplyLine)
	s.stop = context.AfterFunc(s.ctx, func() { _ = conn.Close() })
}

func (s *session) close() {
	s.stop()
	_ = s.conn.Close() // what counts has been said
}

func (s *session) encrypt(config *tls.Config) error {
	conn := tls.Client(s.conn, config)
	ctx, cancel := context.WithTimeout(s.ctx, s.wait)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	s.use(conn)
	return nil
}

// read waits for a reply with that code.
func (s *session) read(code int) (reply, error) {
	if err := s.conn.SetDeadline(time.Now().Add(s.wait)); err != nil {
		return reply{}, s.because(err)
	}
	got, err := readReply(s.reader)
	if err != nil {
		return reply{}, s.because(err)
	}
	// RCPT can be answered with 251, which is a success of its own.
	if got.code != code && (code != 250 || got.class() != 2) {
		return got, &refusal{got}
	}
	return got, nil
}

// say sends one command and waits for a reply with that code.
func (s *session) say(command string, code int) (reply, error) {
	if s.reader.Buffered() > 0 {
		return reply{}, errOutOfStep
	}
	if err := s.conn.SetDeadline(time.Now().Add(s.wait)); err != nil {
		return reply{}, s.because(err)
	}
	if _, err := s.conn.Write([]byte(command + "\r\n")); err != nil {
		return reply{}, s.because(err)
	}
	return s.read(code)
}

// because prefers the end of the attempt to the error that it caused.
func (s *session) because(err error) error {
	if ended := s.ctx.Err(); ended != nil {
		return ended
	}
	return err
}

func (s *session) hello(name string) error {
	got, err := s.say("EHLO "+name, 250)
	if err != nil {
		return err
	}
	s.extensions = map[string]string{}
	for _, line := range got.lines[1:] {
		keyword, parameters, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.extensions[strings.ToUpper(keyword)] = parameters
	}
	return nil
}

func (s *session) authenticate(c Credential) error {
	mechanisms := strings.Fields(strings.ToUpper(s.extensions["AUTH"]))
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	switch {
	case strings.ContainsRune(c.User+c.Password, 0):
		return errors.New("the credential holds a NUL")
	case slices.Contains(mechanisms, "PLAIN"):
		_, err := s.say("AUTH PLAIN "+encode("\x00"+c.User+"\x00"+c.Password), 235)
		return err
	case slices.Contains(mechanisms, "LOGIN"):
		if _, err := s.say("AUTH LOGIN", 334); err != nil {
			return err
		}
		if _, err := s.say(encode(c.User), 334); err != nil {
			return err
		}
		_, err := s.say(encode(c.Password), 235)
		return err
	}
	return errNoAuth
}

// limit is the size of the largest mail that the server takes, in bytes; zero
// where it names none.
func (s *session) limit() int {
	n, err := strconv.Atoi(s.extensions["SIZE"])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// quit says goodbye where that takes no time. The outcome is known already.
func (s *session) quit() {
	if s.conn.SetDeadline(time.Now().Add(quitTime)) == nil {
		_, _ = s.conn.Write([]byte("QUIT\r\n"))
	}
}

const quitTime = time.Second

// describe is one line about an error, without the text of a reply.
func describe(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "out of time"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no reply in time"
	}
	return oneLine(fmt.Sprint(err))
}
