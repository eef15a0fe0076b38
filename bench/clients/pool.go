package clients

import (
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Pool is a number of connections to one server, taken in turn. It is safe for
// concurrent use.
type Pool struct {
	conns []*grpc.ClientConn
	next  atomic.Uint64
}

// Dial makes the connections, plain text to loopback.
func Dial(address string, connections int, options ...grpc.DialOption) (*Pool, error) {
	p := &Pool{}
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	for range connections {
		conn, err := grpc.NewClient("passthrough:///"+address, options...)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.conns = append(p.conns, conn)
	}
	return p, nil
}

// Next is the connection whose turn it is.
func (p *Pool) Next() *grpc.ClientConn {
	return p.conns[p.next.Add(1)%uint64(len(p.conns))]
}

// Close closes all connections.
func (p *Pool) Close() error {
	var errs []error
	for _, conn := range p.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
