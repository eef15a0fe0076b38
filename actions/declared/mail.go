package declared

import (
	"context"
	"crypto/tls"
	"fmt"
	"html"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"slices"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/expr"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/actions/smtpaction"
)

// Mail makes the adapter of an action that sends a mail. Options.Secret resolves
// the credentials, which all tenants share, and Options.Dial is how the server is
// reached; nil refuses addresses that are neither public nor named. It fails
// with an *InvalidError.
func Mail(p *definition.Provider, a *definition.Action, o Options) (actions.Adapter, error) {
	o = o.withDefaults()
	envs, err := newEnvironments()
	if err != nil {
		return nil, err
	}
	c := &compiler{envs: envs}
	out := newMessage(c, p, a)
	if err := c.err(a.Type); err != nil {
		return nil, err
	}
	s := p.SMTP
	options := smtpaction.Options{
		Spec: out.spec, Check: out.validate, Message: out.message,
		Host: s.Host, Port: s.Port, Hello: s.Hello, Domain: s.Domain, Dial: o.Dial,
		Security: map[string]smtpaction.Security{"tls": smtpaction.ImplicitTLS, "none": smtpaction.PlainText}[s.Security],
		TLS:      &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if s.User != nil {
		options.Credential = func(context.Context) (smtpaction.Credential, error) {
			user, err := o.Secret(*s.User, "")
			if err != nil {
				return smtpaction.Credential{}, err
			}
			password, err := o.Secret(*s.Password, "")
			return smtpaction.Credential{User: user, Password: password}, err
		}
	}
	if options.Dial == nil {
		if options.Dial, err = guardedDial(s.PrivateNetworks, o.Resolver); err != nil {
			return nil, err
		}
	}
	return smtpaction.New(options)
}

// message is a compiled mail action.
type message struct {
	plain
	from, subject  *expr.Template
	replyTo        *expr.Template // nil: none
	to, cc         []*expr.Template
	text, htmlText *expr.Template // nil: none
	headers        map[string]*expr.Template
}

func newMessage(c *compiler, p *definition.Provider, a *definition.Action) *message {
	m := a.Mail
	if m == nil {
		c.bad("", "an action on a mail server wants a mail")
		return nil
	}
	optional := func(field, text string) *expr.Template {
		if text == "" {
			return nil
		}
		return c.template(c.envs.request, field, text)
	}
	out := &message{
		plain: newPlain(c, p, a),
		from:  c.template(c.envs.request, "mail.from", m.From), subject: c.template(c.envs.request, "mail.subject", m.Subject),
		replyTo: optional("mail.reply_to", m.ReplyTo), text: optional("mail.text", m.Text), htmlText: optional("mail.html", m.HTML),
		to: c.recipients("mail.to", m.To), cc: c.recipients("mail.cc", m.Cc), headers: map[string]*expr.Template{},
	}
	if len(out.to) == 0 {
		c.bad("mail.to", "want a template, or a list of them")
	}
	if m.Text == "" && m.HTML == "" {
		c.bad("mail", "want a text, html, or both")
	}
	for name, text := range m.Headers {
		out.headers[name] = c.template(c.envs.request, member("mail.headers", name), text)
	}
	return out
}

// recipients compiles one template or a list of them.
func (c *compiler) recipients(field string, value any) []*expr.Template {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return []*expr.Template{c.template(c.envs.request, field, v)}
	case []any:
		var out []*expr.Template
		for i, item := range v {
			text, ok := item.(string)
			if !ok {
				c.bad(element(field, i), "want a template")
				continue
			}
			out = append(out, c.template(c.envs.request, element(field, i), text))
		}
		return out
	default:
		c.bad(field, "want a template, or a list of them")
		return nil
	}
}

// message makes the mail of a call.
func (m *message) message(call actions.Call) (smtpaction.Message, error) {
	vars := m.vars(call)
	var out smtpaction.Message
	from, err := addressesOf("from", []*expr.Template{m.from}, vars)
	if err != nil {
		return out, err
	}
	if len(from) != 1 {
		return out, fmt.Errorf("from: want one address")
	}
	out.From = from[0]
	if out.To, err = addressesOf("to", m.to, vars); err != nil {
		return out, err
	}
	if out.Cc, err = addressesOf("cc", m.cc, vars); err != nil {
		return out, err
	}
	if m.replyTo != nil {
		if out.ReplyTo, err = addressesOf("reply_to", []*expr.Template{m.replyTo}, vars); err != nil {
			return out, err
		}
	}
	for _, part := range []struct {
		into   *string
		field  string
		of     *expr.Template
		escape func(string) (string, error)
	}{
		{&out.Subject, "subject", m.subject, nil}, {&out.Text, "text", m.text, nil}, {&out.HTML, "html", m.htmlText, escapeHTML},
	} {
		if part.of == nil {
			continue
		}
		if *part.into, err = part.of.Text(vars, part.escape); err != nil {
			return out, fmt.Errorf("%s: %w", part.field, err)
		}
	}
	out.Headers = make(map[string]string, len(m.headers))
	for _, name := range slices.Sorted(maps.Keys(m.headers)) {
		if out.Headers[name], err = m.headers[name].Text(vars, nil); err != nil {
			return out, fmt.Errorf("headers: %s: %w", name, err)
		}
	}
	return out, nil
}

func escapeHTML(text string) (string, error) { return html.EscapeString(text), nil }

// addressesOf reads addresses: each template is one, or a list of them; an empty
// optional is none. Its errors name the field and never repeat an address.
func addressesOf(field string, templates []*expr.Template, vars expr.Vars) ([]mail.Address, error) {
	var out []mail.Address
	for _, t := range templates {
		value, err := t.Value(vars)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		items, isList := value.([]any)
		if !isList && value != expr.Omitted && value != nil {
			items = []any{value}
		}
		for i, item := range items {
			text, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("%s[%d]: want an address", field, i)
			}
			address, err := mail.ParseAddress(text)
			if err != nil {
				return nil, fmt.Errorf("%s[%d]: is no address", field, i)
			}
			out = append(out, *address)
		}
	}
	return out, nil
}

// guardedDial opens connections to public addresses and to the named networks.
func guardedDial(networks []string, resolver *net.Resolver) (func(context.Context, string, string) (net.Conn, error), error) {
	var private []netip.Prefix
	for _, network := range networks {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return nil, fmt.Errorf("smtp.private_networks: %w", err)
		}
		private = append(private, prefix)
	}
	return httpaction.GuardedDial(private, resolver), nil
}
