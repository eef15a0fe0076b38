package declared

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/httpaction"
)

// maxExchange bounds one exchange where nothing else does. The context of an
// attempt, which has the action's timeout, is what ends it.
const maxExchange = time.Hour

// Connection is what all actions of one provider share: sender, credentials,
// tokens and pace. It is safe for concurrent use. Close it when no adapter of it
// is used any more.
type Connection struct {
	contract *contract
	to       target
	sender   *httpaction.Sender
	tokens   *tokens            // nil without OAuth2
	calls    *httpaction.Sender // of tokens; nil without
	paces    *paces
}

// NewConnection compiles a provider and opens nothing. It fails with an
// *InvalidError where the definition is wrong, and with another error where it
// does not fit the installation: a certificate that cannot be read, credentials
// without Options.Secret.
func NewConnection(p *definition.Provider, o Options) (*Connection, error) {
	envs, err := newEnvironments()
	if err != nil {
		return nil, err
	}
	c := &compiler{envs: envs}
	compiled := newContract(c, p)
	if err := c.err(p.Name); err != nil {
		return nil, err
	}
	conn, err := connect(compiled, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return conn, nil
}

// At returns a connection to the same provider under other options. What was
// compiled is shared, pace and tokens are not. It fails as NewConnection does.
func (conn *Connection) At(o Options) (*Connection, error) {
	return connect(conn.contract, o.withDefaults())
}

func connect(k *contract, o Options) (*Connection, error) {
	conn := &Connection{contract: k, to: k.to, paces: newPaces(k.p.Pace, k.auth.perTenant(), o.Now)}
	if o.BaseURL != nil {
		if address := o.BaseURL(k.p.Name); address != "" {
			var err error
			if conn.to, err = k.to.playedAt(address); err != nil {
				return nil, err
			}
		}
	}
	if k.auth != nil && o.Secret == nil {
		return nil, errors.New("there are credentials, and nothing that resolves secrets")
	}
	options, err := senderOptions(k, conn.to, o)
	if err != nil {
		return nil, err
	}
	if k.auth != nil && k.auth.OAuth2 != nil {
		if err := conn.openTokens(k, options, o); err != nil {
			return nil, err
		}
	}
	if k.auth != nil || k.p.OperationToken != nil {
		z := &authorizer{rules: k.auth, secret: o.Secret, tokens: conn.tokens, now: o.Now}
		options.Authorize = z.credential
	}
	conn.sender, err = httpaction.NewSender(options)
	return conn, err
}

// senderOptions say where requests may go.
func senderOptions(k *contract, to target, o Options) (httpaction.Options, error) {
	h := k.p.HTTP
	config, err := tlsConfig(h.TLS)
	if err != nil {
		return httpaction.Options{}, err
	}
	return httpaction.Options{
		Origins:          to.allowed(),
		PrivateNetworks:  slices.Concat([]netip.Prefix{}, k.private, o.PrivateNetworks),
		TLS:              config,
		ConnectTimeout:   h.ConnectTimeout.Std(),
		Timeout:          maxExchange,
		MaxResponseBytes: int64(h.MaxResponse),
		Resolver:         o.Resolver,
		Dial:             o.Dial,
		Now:              o.Now,
		Tracer:           o.Tracer,
	}, nil
}

// openTokens makes the sender of token calls: it may go to the one origin of the
// token endpoint, where nothing else goes.
func (conn *Connection) openTokens(k *contract, options httpaction.Options, o Options) error {
	address := k.auth.tokenURL.String()
	options.Origins = []string{originOf(k.auth.tokenURL)}
	if conn.to.played != "" {
		address, options.Origins = conn.to.played+k.auth.tokenURL.EscapedPath(), conn.to.allowed()
	}
	options.Timeout, options.MaxResponseBytes = tokenTimeout, maxTokenBytes
	options.Credential = tokenCredential
	calls, err := httpaction.NewSender(options)
	if err != nil {
		return err
	}
	conn.calls, conn.tokens = calls, newTokens(k.auth, address, calls, o)
	return nil
}

// tlsConfig reads the files with certificates. Ours is read again at each
// handshake, so that it can be renewed.
func tlsConfig(t *definition.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s holds no certificate", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("tls: cert and key go together")
	}
	if t.Cert == "" {
		return config, nil
	}
	ours := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		return &pair, err
	}
	if _, err := ours(nil); err != nil {
		return nil, fmt.Errorf("tls.cert: %w", err)
	}
	config.GetClientCertificate = ours
	return config, nil
}

// Close lets go of idle connections.
func (conn *Connection) Close() {
	conn.sender.Close()
	if conn.calls != nil {
		conn.calls.Close()
	}
}

// send makes one attempt of a write. stale says that the provider refused a token
// that was fetched before: another attempt, with another token, can do better.
func (conn *Connection) send(ctx context.Context, call actions.Call, r httpaction.Request) (x httpaction.Exchange, stale bool) {
	at := &attempt{tenant: call.Tenant}
	if conn.contract.p.OperationToken != nil {
		at.operation = call.OperationToken
	}
	return conn.exchange(ctx, at, r, conn.sender.Send)
}

// ask makes one look-up. A GET may share a connection; a POST, which searches,
// goes as writes do: once, on a connection of its own.
func (conn *Connection) ask(ctx context.Context, tenant string, r httpaction.Request) httpaction.Exchange {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		x, _ := conn.exchange(ctx, &attempt{tenant: tenant}, r, conn.sender.Read)
		return x
	}
	x, _ := conn.exchange(ctx, &attempt{tenant: tenant}, r, conn.sender.Send)
	return x
}

func (conn *Connection) exchange(ctx context.Context, at *attempt, r httpaction.Request, do func(context.Context, httpaction.Request) httpaction.Exchange) (x httpaction.Exchange, stale bool) {
	x = do(withAttempt(ctx, at), r)
	if x.Status != http.StatusUnauthorized || at.token == "" {
		return x, false
	}
	conn.tokens.drop(at.tenant, at.token)
	return x, at.kept
}
