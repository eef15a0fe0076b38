package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// client is what the commands that call a running Onceward share.
type client struct {
	Address string `env:"ONCEWARD_ADDRESS" help:"Address of the API. Default: where onceward dev listens, else 127.0.0.1:7070."`
	APIKey  string `name:"api-key" env:"ONCEWARD_API_KEY" help:"API key; other users see a flag, so better give the variable. Default: a demo key of onceward dev."`
	CACert  string `name:"ca-cert" env:"ONCEWARD_CA_CERT" type:"existingfile" help:"Trust the certificates in this PEM file, and no others. Beyond loopback TLS is always used; with this flag there, too."`
	DataDir string `env:"ONCEWARD_DATA_DIR" type:"path" help:"Data folder of onceward dev."`
	JSON    bool   `name:"json" help:"Print the whole answer as JSON."`
}

// role says which of dev's demo keys a command uses when none is given.
type role int

const (
	asAgent role = iota
	asReviewer
	asAdmin
)

const defaultAddress = "127.0.0.1:7070"

// dial connects and returns a context that carries the credential. The caller
// must close the connection.
func (c *client) dial(ctx context.Context, as role) (context.Context, *grpc.ClientConn, error) {
	address, key, err := c.target(as)
	if err != nil {
		return nil, nil, err
	}
	transport, err := c.transport(address)
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient(address, append(explaining(address), grpc.WithTransportCredentials(transport))...)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", address, err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key), conn, nil
}

// transport is TLS, or plain text for a server on this machine.
func (c *client) transport(address string) (credentials.TransportCredentials, error) {
	if c.CACert != "" {
		transport, err := credentials.NewClientTLSFromFile(c.CACert, "")
		if err != nil {
			return nil, fmt.Errorf("--ca-cert: %s: %w", c.CACert, err)
		}
		return transport, nil
	}
	if host, _, err := net.SplitHostPort(address); err == nil && isLoopback(host) {
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), nil
}

// target finds address and key: as given, else those of dev on this machine.
func (c *client) target(as role) (address, key string, err error) {
	address, key = c.Address, c.APIKey
	if address != "" && key != "" {
		return address, key, nil
	}
	var dev devState
	dir, err := dataDir(c.DataDir)
	if err == nil {
		dev, err = readDevState(dir)
	}
	switch {
	case err == nil || key != "": // without dev's state its defaults are not there, and that is all
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return "", "", errors.New("no API key: set ONCEWARD_API_KEY, or start onceward dev on this machine as this user")
	default:
		return "", "", err
	}
	if address == "" {
		if address = dev.Address; address == "" {
			address = defaultAddress
		}
	} else if key == "" && address != dev.Address {
		return "", "", fmt.Errorf("no API key for %s: set ONCEWARD_API_KEY", address)
	}
	if key == "" {
		key = map[role]string{asAgent: dev.AgentKey, asReviewer: dev.ReviewerKey, asAdmin: dev.AdminKey}[as]
		if key == "" { // a dev from before there was one
			return "", "", errors.New("no API key for this: set ONCEWARD_API_KEY, or start onceward dev again")
		}
	}
	return address, key, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// print writes a message as JSON, or by the given function for people.
func (c *client) print(s streams, m proto.Message, people func(io.Writer)) error {
	if !c.JSON {
		people(s.out)
		return nil
	}
	data, err := protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, string(data))
	return err
}

// explaining are the options of a connection to address whose calls fail with
// words for people where there was no answer at all.
func explaining(address string) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return explain(address, invoke(ctx, method, req, reply, conn, opts...))
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, conn, method, opts...)
			return explainedStream{stream, address}, explain(address, err)
		}),
	}
}

type explainedStream struct {
	grpc.ClientStream
	address string
}

func (s explainedStream) RecvMsg(m any) error { return explain(s.address, s.ClientStream.RecvMsg(m)) }

// explain says what to do when no server answered. Servers of ours give a
// reason with every error. gRPC tells why it could not connect as text only;
// nothing but the advice depends on it.
func explain(address string, err error) error {
	st := status.Convert(err)
	if st.Code() != codes.Unavailable || len(st.Details()) > 0 {
		return err
	}
	cause := strings.TrimSuffix(st.Message()[strings.LastIndex(st.Message(), `desc = "`)+1:], `"`)
	cause = strings.TrimPrefix(strings.TrimPrefix(cause, `esc = "`), "transport: ")
	switch {
	case strings.Contains(cause, syscall.ECONNREFUSED.Error()):
		return fmt.Errorf("nothing listens on %s: start onceward dev, or set ONCEWARD_ADDRESS to where Onceward runs", address)
	case strings.Contains(cause, "x509: "):
		return fmt.Errorf("the certificate of %s is not trusted: %s (--ca-cert names the one to trust)", address, cause)
	default:
		return fmt.Errorf("no answer from %s: %s (is ONCEWARD_ADDRESS right, and does it speak TLS?)", address, cause)
	}
}

// oneLine renders any error, a gRPC status with its reason and fields. Which package
// of ours made it is left out: that is for who reads the code.
func oneLine(err error) string {
	// Not status.FromError: it puts the whole chain into the message.
	var answered interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &answered) {
		return joined(err.Error())
	}
	st := answered.GRPCStatus()
	var b strings.Builder
	b.WriteString(st.Code().String())
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && !strings.EqualFold(info.GetReason(), st.Code().String()) {
			b.WriteString(" " + info.GetReason())
		}
	}
	b.WriteString(": " + st.Message())
	for _, detail := range st.Details() {
		bad, ok := detail.(*errdetails.BadRequest)
		if !ok || len(bad.GetFieldViolations()) < 2 {
			continue // the message has the first
		}
		for _, v := range bad.GetFieldViolations()[1:] {
			fmt.Fprintf(&b, "; %s: %s", v.GetField(), v.GetDescription())
		}
	}
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// joined makes one line of several. What is said twice, as pgx does of an address that
// it tried with TLS and without, is said once.
func joined(text string) string {
	var b strings.Builder
	var last string
	for line := range strings.SplitSeq(text, "\n") {
		line = withoutPackage(strings.TrimSpace(line))
		if line == "" || line == last {
			continue
		}
		switch {
		case last == "":
		case strings.HasSuffix(last, ":"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
		last = line
	}
	return b.String()
}

// withoutPackage takes the names of our packages off the front of an error's line.
// Names inside a line stay: there they may be fields of a file, such as secrets.
func withoutPackage(line string) string {
	for {
		name, rest, found := strings.Cut(line, ": ")
		if !found {
			return line
		}
		switch name {
		case "auditchain", "guard", "identity", "ledger", "migrations", "policies", "privatepg", "proof", "secret", "secrets", "signing", "telemetry":
			line = rest
		default:
			return line
		}
	}
}
