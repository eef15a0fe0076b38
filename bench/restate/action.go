package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	"github.com/restatedev/sdk-go/server"
)

const (
	serviceName = "Actions"
	handlerName = "Perform"
)

// serveHandlers serves the service whose one handler has the call of the
// provider as its one step. It returns the URL for the server to call.
func serveHandlers(ctx context.Context, p *provider, logs slog.Handler) (url string, stop func(), err error) {
	perform := restate.NewServiceHandler(func(ctx restate.Context, key string) (string, error) {
		return restate.Run(ctx, func(restate.RunContext) (string, error) { return p.perform(key), nil })
	})
	handler, err := server.NewRestate().
		WithLogger(logs, true).
		Bind(restate.NewService(serviceName).Handler(handlerName, perform)).
		Handler()
	if err != nil {
		return "", nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return "", nil, err
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handler, Protocols: &protocols, ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(listener)        //nolint:errcheck // it ends with ErrServerClosed; anything else fails the callers
	stop = func() { s.Close() } //nolint:errcheck // nobody is left to be told
	return "http://" + listener.Addr().String(), stop, nil
}

// caller returns what performs a keyed action through the ingress, over as many
// connections as there are callers, which are kept.
func caller(address string, callers int) func(ctx context.Context, key string) (string, error) {
	client := ingress.NewClient(address, ingress.WithHttpClient(&http.Client{
		Transport: &http.Transport{MaxIdleConns: callers, MaxIdleConnsPerHost: callers},
	}))
	actions := ingress.Service[string, string](client, serviceName, handlerName)
	return func(ctx context.Context, key string) (string, error) {
		return actions.Request(ctx, key, restate.WithIdempotencyKey(key))
	}
}
