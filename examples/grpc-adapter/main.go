package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/onceward/onceward/actions/httpaction"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "grpc-adapter:", err)
		os.Exit(1)
	}
}

// flags are the command line.
type flags struct {
	listen               string
	cert, key, clientCA  string
	providerURL, token   string
	localProviderAllowed bool
}

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("grpc-adapter", flag.ContinueOnError)
	set.StringVar(&f.listen, "listen", "127.0.0.1:7070", "`address` to serve on; without TLS on loopback only")
	set.StringVar(&f.cert, "tls-cert", "", "PEM `file` with the server's certificate")
	set.StringVar(&f.key, "tls-key", "", "PEM `file` with its key")
	set.StringVar(&f.clientCA, "client-ca", "", "PEM `file` with the authorities of clients; with TLS, nobody else may call")
	set.StringVar(&f.providerURL, "provider-url", "", "`URL` of the loyalty provider, without a path")
	set.StringVar(&f.token, "token-file", "", "`file` with the provider's token; read anew for each request")
	set.BoolVar(&f.localProviderAllowed, "allow-loopback-provider", false, "the provider may be on this machine (for tests)")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case f.providerURL == "" || f.token == "":
		return f, errors.New("-provider-url and -token-file are required")
	}
	return f, nil
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	provider := providerOptions{BaseURL: f.providerURL, Token: readToken(f.token)}
	if f.localProviderAllowed {
		provider.PrivateNetworks = httpaction.Loopback()
	}
	l, err := newLoyalty(provider)
	if err != nil {
		return err
	}
	transport, err := transportOf(f)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", f.listen)
	if err != nil {
		return err
	}
	if address, ok := listener.Addr().(*net.TCPAddr); f.cert == "" && (!ok || !address.IP.IsLoopback()) {
		listener.Close()
		return fmt.Errorf("-listen %s is not loopback: set -tls-cert, -tls-key and -client-ca", f.listen)
	}

	server := grpc.NewServer(grpc.Creds(transport))
	oncewardv1.RegisterAdapterServiceServer(server, &service{loyalty: l})
	alive := health.NewServer()
	alive.SetServingStatus(oncewardv1.AdapterService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, alive)
	reflection.Register(server)

	fmt.Fprintln(out, listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Attempts under way are finished first: each that is cut is a doubt.
	alive.Shutdown()
	impatient := time.AfterFunc(attemptTimeout, server.Stop)
	defer impatient.Stop()
	server.GracefulStop()
	return <-ended
}

// transportOf returns TLS that knows its clients, or plain text.
func transportOf(f flags) (credentials.TransportCredentials, error) {
	if f.cert == "" && f.key == "" && f.clientCA == "" {
		return insecure.NewCredentials(), nil
	}
	if f.cert == "" || f.key == "" || f.clientCA == "" {
		return nil, errors.New("-tls-cert, -tls-key and -client-ca go together: whoever can call Execute can grant points")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("-tls-cert: %w", err)
	}
	pem, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, fmt.Errorf("-client-ca: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("-client-ca: no certificate in %s", f.clientCA)
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}), nil
}

// readToken reads the token anew for each request: it can be rotated without a
// restart, and while it cannot be read nothing is sent.
func readToken(path string) func() (string, error) {
	return func() (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("token: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
}
