package providers

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/declared"
	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/actions/grpcaction"
)

// newLink makes what the actions of a provider share.
func (p *Providers) newLink(provider *definition.Provider) (link, error) {
	switch provider.Adapter {
	case definition.AdapterGRPC:
		return newGRPC(provider)
	case definition.AdapterHTTP:
		conn, err := declared.NewConnection(provider, p.Declared)
		if err != nil {
			return nil, err
		}
		return httpLink{conn}, nil
	case definition.AdapterSQL:
		return p.newSQL(provider)
	case definition.AdapterSMTP:
		return &mailLink{provider, p.Declared}, nil
	default:
		return nil, fmt.Errorf("adapter %s: %w", provider.Adapter, errUnsupported)
	}
}

// httpLink is a provider that is declared as a whole.
type httpLink struct{ conn *declared.Connection }

func (l httpLink) adapter(a *definition.Action) (actions.Adapter, error) {
	return declared.HTTP(l.conn, a)
}

func (httpLink) described(context.Context) ([]actions.Adapter, error) { return nil, nil }

func (l httpLink) close() { l.conn.Close() }

// grpcLink is a provider in a process of its own, which describes its actions
// itself.
type grpcLink struct{ client *grpcaction.Client }

func newGRPC(p *definition.Provider) (link, error) {
	o := grpcaction.Options{
		Address: p.GRPC.Address, DescribeTimeout: p.GRPC.Timeout.Std(), LookupTimeout: p.GRPC.Timeout.Std(),
		Protection: declared.ProtectionOf(p),
	}
	if p.OperationToken != nil {
		o.TokenAudience = p.OperationToken.Audience
	}
	if !p.GRPC.PlainText {
		files := grpcaction.TLSFiles{}
		if t := p.GRPC.TLS; t != nil {
			files = grpcaction.TLSFiles{CA: t.CA, Certificate: t.Cert, Key: t.Key, ServerName: t.ServerName}
		}
		var err error
		if o.TLS, err = files.Config(); err != nil {
			return nil, err
		}
	}
	client, err := grpcaction.New(o)
	if err != nil {
		return nil, err
	}
	return grpcLink{client}, nil
}

func (grpcLink) adapter(*definition.Action) (actions.Adapter, error) { return nil, errUnsupported }

// described asks the adapter. It is asked at every reload: it may have learnt
// something new.
func (l grpcLink) described(ctx context.Context) ([]actions.Adapter, error) {
	return l.client.Describe(ctx)
}

func (l grpcLink) close() { _ = l.client.Close() } // nothing can be done about it
