package smtpaction_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a scripted server does instead of replying.
const (
	hangUp = "(hang up)" // close the connection
	silent = "(silent)"  // never reply, and keep the connection
)

// script says how a server answers, by the command ("MAIL", "RCPT 2", …, and
// "greeting", "mail" before the first byte of it is read, "dot"). What is not
// named is answered as a good server does. A reply goes out as it is, with a
// line break at its end.
type script map[string]string

// server is an SMTP server that misbehaves on purpose and counts what it takes.
type server struct {
	t        *testing.T
	listener net.Listener
	script   script
	tls      *tls.Config // for STARTTLS, or from the first byte
	implicit bool

	mu       sync.Mutex
	mails    []string // taken over: the dot was answered with success, or it was to be
	commands []string
	conns    []net.Conn
	done     chan struct{}
	work     sync.WaitGroup
}

func serve(t *testing.T, s script, config *tls.Config, implicit bool) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &server{t: t, listener: listener, script: s, tls: config, implicit: implicit, done: make(chan struct{})}
	v.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			v.mu.Lock()
			v.conns = append(v.conns, conn)
			v.mu.Unlock()
			v.work.Go(func() { defer conn.Close(); v.talk(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		close(v.done)
		v.mu.Lock()
		for _, c := range v.conns {
			c.Close()
		}
		v.mu.Unlock()
		v.work.Wait()
	})
	return v
}

func (v *server) port() int { return v.listener.Addr().(*net.TCPAddr).Port }

// taken are the mails that the server has taken over.
func (v *server) taken() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.mails...)
}

// heard are the commands, without their parameters but for RCPT.
func (v *server) heard() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.commands, "; ")
}

// answer writes what the script has for a step, else the reply of a good
// server. It reports false where the conversation ends.
func (v *server) answer(conn net.Conn, step, good string) bool {
	reply, scripted := v.script[step]
	if !scripted {
		reply = good
	}
	switch reply {
	case hangUp:
		return false
	case silent:
		<-v.done
		return false
	}
	_, err := conn.Write([]byte(strings.ReplaceAll(reply, "\n", "\r\n") + "\r\n"))
	return err == nil
}

// talk holds one conversation.
func (v *server) talk(conn net.Conn) {
	if v.implicit {
		conn = tls.Server(conn, v.tls)
	}
	reader := bufio.NewReader(conn)
	if !v.answer(conn, "greeting", "220 mx.test ESMTP") {
		return
	}
	recipients, secure := 0, v.implicit
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\r\n")
		v.mu.Lock()
		v.commands = append(v.commands, line)
		v.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		verb, _, _ = strings.Cut(verb, ":")
		good := "250 2.0.0 Ok"
		switch verb {
		case "EHLO":
			good = "250-mx.test greets you\n250-SIZE 5000\n250 AUTH PLAIN LOGIN"
			if v.tls != nil && !secure {
				good = "250-mx.test greets you\n250-SIZE 5000\n250 STARTTLS"
			}
			if secure && v.script["EHLO over TLS"] != "" {
				good = v.script["EHLO over TLS"]
			}
		case "STARTTLS":
			if !v.answer(conn, verb, "220 2.0.0 Ready") {
				return
			}
			conn = tls.Server(conn, v.tls)
			reader, secure = bufio.NewReader(conn), true
			continue
		case "AUTH":
			good = "235 2.7.0 Welcome"
			if strings.HasPrefix(line, "AUTH LOGIN") {
				good = "334 VXNlcm5hbWU6"
			}
		case "dXNlcg==": // user
			good = "334 UGFzc3dvcmQ6"
		case "c2VjcmV0IHdvcmQ=": // secret word
			good = "235 2.7.0 Welcome"
		case "RCPT":
			recipients++
			verb = "RCPT " + string(rune('0'+recipients))
		case "QUIT":
			return
		case "DATA":
			if !v.answer(conn, verb, "354 Go ahead") {
				return
			}
			if _, cut := v.script[verb]; cut && !strings.HasPrefix(v.script[verb], "354") {
				continue
			}
			if !v.data(conn, reader) {
				return
			}
			recipients = 0
			continue
		}
		if !v.answer(conn, verb, good) {
			return
		}
	}
}

// data reads a mail to its dot, which is the moment when it is taken or not.
func (v *server) data(conn net.Conn, reader *bufio.Reader) bool {
	if v.script["mail"] == hangUp {
		return false
	}
	var mail bytes.Buffer
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		mail.WriteString(strings.TrimPrefix(line, "."))
	}
	if reply := v.script["dot"]; reply == "" || reply[0] != '4' && reply[0] != '5' {
		v.mu.Lock()
		v.mails = append(v.mails, mail.String())
		v.mu.Unlock()
	}
	return v.answer(conn, "dot", "250 2.0.0 Ok: queued as 4F1B2A")
}

// certificate is a server's, for localhost, and the roots that trust it.
func certificate(t *testing.T) (server *tls.Config, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, roots
}

// insecure is a configuration that no action may have.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// dialed is a dialer that reaches nobody and wants that address.
func dialed(t *testing.T, want string) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		if address != want {
			t.Errorf("dialed %s, want %s", address, want)
		}
		return nil, errors.New("not here")
	}
}
