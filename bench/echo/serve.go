package echo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"

	"github.com/onceward/onceward/bench/child"
	"github.com/onceward/onceward/internal/app"
)

// Serve runs the echo server in this process until in ends.
func Serve(ctx context.Context, options []grpc.ServerOption, in io.Reader, out io.Writer) error {
	app.TuneMemory() // as Onceward's server
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(options...)
	server.RegisterService(description(), handler{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	err = child.Serve(listener.Addr(), in, out, func(line string) (string, error) {
		return "", fmt.Errorf("unknown line %q", line)
	})
	server.GracefulStop()
	return errors.Join(err, <-ended)
}
