package echo

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The service is described by hand: it has one method, and its messages are
// well-known types.
const (
	service = "onceward.bench.Echo"
	method  = "/" + service + "/Echo"
)

type echoer interface {
	Echo(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
}

type handler struct{}

// Echo implements echoer.
func (handler) Echo(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return in, nil
}

func description() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*echoer)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Echo",
			Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.BytesValue)
				if err := decode(in); err != nil {
					return nil, err
				}
				echo := func(ctx context.Context, req any) (any, error) {
					return srv.(echoer).Echo(ctx, req.(*wrapperspb.BytesValue)) //nolint:forcetypeassert // as grpc registered and decoded it
				}
				if intercept == nil {
					return echo(ctx, in)
				}
				return intercept(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, echo)
			},
		}},
	}
}
