package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
	"github.com/onceward/onceward/simulator"
)

// sampleCall is what the nth printed example is sent as.
func sampleCall(n int) actions.Call {
	return actions.Call{
		Tenant:      demoTenant,
		OperationID: fmt.Sprintf("01900000-0000-7000-8000-%012d", n),
		ProviderKey: fmt.Sprintf("simulated%017d", n),
	}
}

// exampleCurl is a command that makes a call with the first example of an action
// type, of a simulated provider.
func exampleCurl(address string, p *definition.Provider, a *definition.Action, call actions.Call) (string, error) {
	if len(a.Examples) == 0 {
		return "(no example)", nil
	}
	if p.HTTP.Auth != nil && p.HTTP.Auth.HMAC != nil {
		return "(requests are signed, which curl cannot do)", nil
	}
	request, err := rendered(address, p, a, call)
	if err != nil {
		return "", err
	}
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	first := strings.Fields(lines[0]) // method, URL, protocol
	if len(first) != 3 {
		return "", errors.New("the request cannot be shown")
	}
	parts := []string{"curl -si -X " + first[0]}
	target := first[1]
	credential, query := curlCredential(p)
	if query != "" {
		separator := "?"
		if strings.Contains(target, "?") {
			separator = "&"
		}
		target += separator + query
	}
	if credential != "" {
		parts = append(parts, credential)
	}
	for _, header := range lines[1:] {
		parts = append(parts, "-H "+shellQuote(header))
	}
	if len(body) > 0 {
		parts = append(parts, "--data-binary "+shellQuote(string(body)))
	}
	return strings.Join(append(parts, shellQuote(target)), " "), nil
}

// rendered is what the adapter would send for a call with the first example.
func rendered(address string, p *definition.Provider, a *definition.Action, call actions.Call) ([]byte, error) {
	text, err := json.Marshal(a.Examples[0].Arguments)
	if err != nil {
		return nil, err
	}
	if call.Arguments, err = actions.ParseArguments(text); err != nil {
		return nil, err
	}
	conn, err := declared.NewConnection(p, declared.Options{
		Secret:          func(ref definition.Secret, _ string) (string, error) { return simulator.Secret(ref), nil },
		BaseURL:         func(string) string { return address },
		PrivateNetworks: httpaction.Loopback(),
	})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	adapter, err := declared.HTTP(conn, a)
	if err != nil {
		return nil, err
	}
	renderer, ok := adapter.(actions.Renderer)
	if !ok {
		return nil, errors.New("the adapter cannot show its request")
	}
	return renderer.Render(call)
}

// curlCredential is an option of curl with the credential, or a parameter of the
// query.
func curlCredential(p *definition.Provider) (option, query string) {
	auth := p.HTTP.Auth
	switch {
	case auth == nil:
	case auth.Bearer != nil:
		option = "-H " + shellQuote("Authorization: Bearer "+simulator.Secret(*auth.Bearer))
	case auth.Basic != nil:
		user, password := auth.Basic.User, auth.Basic.PasswordIsText
		for name, setting := range p.Config {
			user = strings.ReplaceAll(user, "${config."+name+"}", setting.Value)
		}
		if auth.Basic.UserSecret != nil {
			user = simulator.Secret(*auth.Basic.UserSecret)
		}
		if auth.Basic.Password != nil {
			password = simulator.Secret(*auth.Basic.Password)
		}
		option = "-u " + shellQuote(user+":"+password)
	case auth.Header != nil:
		option = "-H " + shellQuote(auth.Header.Name+": "+auth.Header.Prefix+simulator.Secret(auth.Header.Secret))
	case auth.Query != nil:
		query = url.QueryEscape(auth.Query.Name) + "=" + url.QueryEscape(auth.Query.Prefix+simulator.Secret(auth.Query.Secret))
	case auth.OAuth2 != nil:
		option = `-H "Authorization: Bearer $TOKEN"`
	}
	return option, query
}

func oauth2Of(p *definition.Provider) *definition.OAuth2Auth {
	if p.HTTP == nil || p.HTTP.Auth == nil {
		return nil
	}
	return p.HTTP.Auth.OAuth2
}

// tokenCurl is a command that puts an access token into TOKEN.
func tokenCurl(address string, o *definition.OAuth2Auth) string {
	path := o.TokenURL
	if _, rest, ok := strings.Cut(path, "://"); ok {
		_, path, _ = strings.Cut(rest, "/")
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(o.Scopes) > 0 {
		form.Set("scope", strings.Join(o.Scopes, " "))
	}
	if o.RefreshToken != nil {
		form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {simulator.Secret(*o.RefreshToken)}}
	}
	for name, value := range o.Parameters {
		form.Set(name, value)
	}
	id, secret := simulator.Secret(o.ClientID), simulator.Secret(o.ClientSecret)
	user := " -u " + shellQuote(id+":"+secret)
	if o.Style == "body" {
		user = ""
		form.Set("client_id", id)
		form.Set("client_secret", secret)
	}
	return fmt.Sprintf(`TOKEN=$(curl -s%s -d %s %s | sed 's/.*"access_token":"\([^"]*\)".*/\1/')`,
		user, shellQuote(form.Encode()), shellQuote(address+"/"+strings.TrimPrefix(path, "/")))
}

// shellQuote quotes an argument for a shell. Text with control characters takes
// the form that bash, zsh and ksh read.
func shellQuote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var out strings.Builder
	out.WriteString("$'")
	for _, b := range []byte(s) {
		switch {
		case b == '\'' || b == '\\':
			out.WriteString(`\` + string(rune(b)))
		case b == '\r':
			out.WriteString(`\r`)
		case b == '\n':
			out.WriteString(`\n`)
		case b < ' ' || b == 0x7f:
			fmt.Fprintf(&out, `\x%02x`, b)
		default:
			out.WriteByte(b)
		}
	}
	return out.String() + "'"
}
