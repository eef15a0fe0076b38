package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"google.golang.org/grpc/credentials"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/identity"
)

// identify reads what says who may come in: certificates and the identity file.
// It returns what watches them.
func (c *serveCmd) identify(s streams, log *slog.Logger, config *app.Config) (watches []func(context.Context), err error) {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key go together", errUsage)
	case c.ClientCA != "" && c.TLSCert == "":
		return nil, fmt.Errorf("%w: --client-ca wants --tls-cert and --tls-key: clients' certificates come with TLS", errUsage)
	case c.ClientCA != "" && c.Identity == "":
		return nil, fmt.Errorf("%w: --client-ca wants --identity: without a rule nobody is let in by a certificate", errUsage)
	}
	if c.Identity != "" {
		file, err := identity.Open(identity.FileOptions{Path: c.Identity, Log: log, Interval: c.ReloadInterval})
		if err != nil {
			return nil, faulty(s, err)
		}
		config.Identity, watches = file, append(watches, file.Watch)
	}
	if c.TLSCert == "" {
		return watches, nil
	}
	transport, err := identity.OpenTLS(identity.TLSOptions{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.ClientCA, Log: log, Interval: c.ReloadInterval})
	if err != nil {
		return nil, err
	}
	if slices.Contains(c.Roles, "api") {
		config.Credentials = credentials.NewTLS(transport.Config())
		if c.ClientCA != "" {
			config.ClientTrusted = transport.Trusted
		}
	}
	if c.WebhooksListen != "" {
		config.WebhooksTLS = transport.PlainConfig()
	}
	if c.HTTPListen != "" {
		config.HTTPTLS = transport.PlainConfig()
	}
	if c.AdminListen != "" {
		config.AdminTLS = transport.PlainConfig()
	}
	return append(watches, transport.Watch), nil
}

// listenAll opens what the roles and flags ask for; all or none.
func (c *serveCmd) listenAll(ctx context.Context, config *app.Config) (err error) {
	if slices.Contains(c.Roles, "api") {
		if config.Listener, err = listen(ctx, c.Listen); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(config.Listener, config.Webhooks, config.HTTP, config.Admin))
		}
	}()
	if c.WebhooksListen != "" {
		if config.Webhooks, err = listen(ctx, c.WebhooksListen); err != nil {
			return fmt.Errorf("webhooks: %w", err)
		}
	}
	if c.HTTPListen != "" {
		if config.HTTP, err = listen(ctx, c.HTTPListen); err != nil {
			return fmt.Errorf("--http-listen: %w", err)
		}
	}
	if c.AdminListen != "" {
		if config.Admin, err = listen(ctx, c.AdminListen); err != nil {
			return fmt.Errorf("--admin-listen: %w", err)
		}
	}
	return nil
}
