package smtpaction_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/smtpaction"
)

// STARTTLS, implicit TLS and both kinds of AUTH, and everything that must stop
// them before the credentials are said.
func TestProtection(t *testing.T) {
	t.Parallel()
	config, roots := certificate(t)
	user := func(context.Context) (smtpaction.Credential, error) {
		return smtpaction.Credential{User: "user", Password: "secret word"}, nil
	}
	const plain, login = "AUTH PLAIN AHVzZXIAc2VjcmV0IHdvcmQ=", "AUTH LOGIN; dXNlcg==; c2VjcmV0IHdvcmQ="
	for name, test := range map[string]struct {
		script   script
		security smtpaction.Security
		change   func(*smtpaction.Options)
		kind     actions.Kind
		says     string // of the evidence, or for a success of what the server heard
	}{
		"STARTTLS":            {script{}, smtpaction.StartTLS, nil, actions.Applied, "EHLO shop.example; STARTTLS; EHLO shop.example; " + plain + "; MAIL"},
		"implicit":            {script{}, smtpaction.ImplicitTLS, nil, actions.Applied, "EHLO shop.example; " + plain + "; MAIL"},
		"LOGIN":               {script{"EHLO over TLS": "250-a\n250 auth login"}, smtpaction.StartTLS, nil, actions.Applied, login + "; MAIL"},
		"hello":               {script{}, smtpaction.StartTLS, func(o *smtpaction.Options) { o.Hello = "onceward.example" }, actions.Applied, "EHLO onceward.example; STARTTLS; EHLO onceward.example"},
		"no AUTH known":       {script{"EHLO over TLS": "250-a\n250 AUTH GSSAPI"}, smtpaction.StartTLS, nil, actions.NotApplied, "neither AUTH PLAIN nor AUTH LOGIN"},
		"stripped":            {script{"EHLO": "250-mx.test\n250 AUTH PLAIN"}, smtpaction.StartTLS, nil, actions.NotApplied, "offers no STARTTLS"},
		"STARTTLS refused":    {script{"STARTTLS": "454 4.7.0 No"}, smtpaction.StartTLS, nil, actions.NotApplied, "STARTTLS: 454"},
		"injected":            {script{"STARTTLS": "220 Ready\n250 AUTH PLAIN"}, smtpaction.StartTLS, nil, actions.NotApplied, "out of turn"},
		"wrong password":      {script{"AUTH": "535 5.7.8 secret word is wrong"}, smtpaction.StartTLS, nil, actions.NotApplied, "AUTH: 535 5.7.8"},
		"unknown certificate": {script{}, smtpaction.StartTLS, func(o *smtpaction.Options) { o.TLS = nil }, actions.NotApplied, "TLS: "},
		"other name":          {script{}, smtpaction.ImplicitTLS, func(o *smtpaction.Options) { o.Host = "127.0.0.1" }, actions.NotApplied, "TLS: "},
		"no secret": {script{}, smtpaction.StartTLS, func(o *smtpaction.Options) {
			o.Credential = func(context.Context) (smtpaction.Credential, error) {
				return smtpaction.Credential{}, errors.New("open /secret word: no such file")
			}
		}, actions.NotApplied, "credential: cannot be read"},
		"NUL": {script{}, smtpaction.StartTLS, func(o *smtpaction.Options) {
			o.Credential = func(context.Context) (smtpaction.Credential, error) {
				return smtpaction.Credential{User: "a\x00b"}, nil
			}
		}, actions.NotApplied, "NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := serve(t, test.script, config, test.security == smtpaction.ImplicitTLS)
			o := options(v.port())
			o.Security, o.TLS, o.Credential = test.security, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, user
			if test.change != nil {
				test.change(&o)
			}
			out := execute(t, action(t, o), call(t, `{}`))
			if out.Kind != test.kind {
				t.Fatalf("outcome is %s %+v; heard %s", out.Kind, out.Failure, v.heard())
			}
			seen := out.Failure.Evidence
			if test.kind == actions.Applied {
				seen = v.heard()
			} else if strings.Contains(v.heard(), "MAIL") || strings.Contains(fmt.Sprint(out), "secret word") {
				t.Errorf("%+v; heard %s", out, v.heard())
			}
			if !strings.Contains(seen, test.says) {
				t.Errorf("saw %q, want %q", seen, test.says)
			}
			if test.script["AUTH"] == "" && test.kind != actions.Applied && strings.Contains(v.heard(), "AHVz") {
				t.Errorf("the credentials were said: %s", v.heard())
			}
		})
	}
}

// Plain text stays on this machine, even where a name leads elsewhere.
func TestPlainTextStaysHere(t *testing.T) {
	t.Parallel()
	v := serve(t, script{}, nil, false)
	o := options(v.port())
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return remoteConn{conn}, err
	}
	out := execute(t, action(t, o), call(t, `{}`))
	wantKind(t, out, actions.NotApplied, "not_connected")
	if !strings.Contains(out.Failure.Evidence, "not on this machine") || v.heard() != "" {
		t.Errorf("%+v; heard %s", out.Failure, v.heard())
	}
}

type remoteConn struct{ net.Conn }

func (remoteConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 25} }
