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

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// client is what the commands that call a running Onceward share.
type client struct {
	Address string `help:"Address of the API. Default: where onceward dev listens, else 127.0.0.1:7070."`
	APIKey  string `name:"api-key" help:"API key. Better: the environment variable ONCEWARD_API_KEY. Default: the demo key of onceward dev."`
	DataDir string `type:"path" help:"Data folder of onceward dev."`
	JSON    bool   `name:"json" help:"Print the whole answer as JSON."`
}

// role says which of dev's demo keys a command uses when none is given.
type role int

const (
	asAgent role = iota
	asReviewer
)

const defaultAddress = "127.0.0.1:7070"

// dial connects and returns a context that carries the credential. The caller
// must close the connection.
func (c *client) dial(ctx context.Context, as role) (context.Context, *grpc.ClientConn, error) {
	address, key, err := c.target(as)
	if err != nil {
		return nil, nil, err
	}
	transport := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	if host, _, err := net.SplitHostPort(address); err == nil && isLoopback(host) {
		transport = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", address, err)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key), conn, nil
}

// target finds address and key: as given, else those of dev on this machine.
func (c *client) target(as role) (address, key string, err error) {
	address, key = c.Address, c.APIKey
	if address != "" && key != "" {
		return address, key, nil
	}
	dir, err := dataDir(c.DataDir)
	if err != nil {
		return "", "", err
	}
	dev, err := readDevState(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		if key == "" {
			return "", "", errors.New("no API key: set ONCEWARD_API_KEY, or start onceward dev on this machine as this user")
		}
	case err != nil:
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
		if key = dev.AgentKey; as == asReviewer {
			key = dev.ReviewerKey
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

// oneLine renders any error, a gRPC status with its reason and fields.
func oneLine(err error) string {
	// Not status.FromError: it puts the whole chain into the message.
	var answered interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &answered) {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	st := answered.GRPCStatus()
	var b strings.Builder
	b.WriteString(st.Code().String())
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
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
