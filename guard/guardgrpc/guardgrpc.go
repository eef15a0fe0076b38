package guardgrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/onceward/onceward/guard"
)

// Domain of the ErrorInfo that every refusal carries; its reason is a
// guard.Reason.
const Domain = "guard.onceward"

// ReplayKey is "true" in the header of a reply that an earlier call got first.
const ReplayKey = "onceward-replayed"

// Methods say what calls do, by full name ("/billing.v1.Refunds/Create"). A method
// that is in neither is refused.
type Methods struct {
	// Writes need a token for one of these action types.
	Writes map[string][]string
	// Reads need none.
	Reads []string
}

// Interceptors guard a server. They are safe for concurrent use.
type Interceptors struct {
	guard  *guard.Guard
	writes map[string][]string
	reads  map[string]bool
}

// New makes the interceptors of a server. It fails when a method is in both
// lists, or is a write without action types.
func New(g *guard.Guard, m Methods) (*Interceptors, error) {
	i := &Interceptors{guard: g, writes: maps.Clone(m.Writes), reads: map[string]bool{}}
	for _, name := range m.Reads {
		i.reads[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(m.Writes)) {
		switch {
		case i.reads[name]:
			return nil, fmt.Errorf("guardgrpc: %s is a read and a write", name)
		case len(m.Writes[name]) == 0:
			return nil, fmt.Errorf("guardgrpc: %s has no action types: nobody could call it", name)
		case !strings.HasPrefix(name, "/"):
			return nil, fmt.Errorf("guardgrpc: %s: want a full name such as /billing.v1.Refunds/Create", name)
		}
	}
	return i, nil
}

// Unary is the interceptor of calls with one reply.
//
// The status says how an operation ended: OK is performed, and the reply is kept;
// INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
// FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED and UNAUTHENTICATED are
// refusals that did nothing; any other leaves it unresolved, but see
// guard.NotApplied.
func (i *Interceptors) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if i.reads[info.FullMethod] {
		return handle(withoutToken(ctx), req)
	}
	pass, err := i.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	if pass.Replay != nil {
		reply, err := unpack(*pass.Replay)
		if err != nil {
			return nil, Status(&guard.RefusedError{Reason: guard.ReasonDone, Err: err})
		}
		return reply, grpc.SetHeader(ctx, metadata.Pairs(ReplayKey, "true"))
	}
	var reply any
	err = perform(ctx, pass, func(ctx context.Context) (guard.Response, error) {
		var err error
		if reply, err = handle(ctx, req); err != nil {
			return guard.Response{}, err
		}
		return pack(reply), nil
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// Stream is the interceptor of streams. What a stream said is not kept: a second
// one of an operation that was performed is refused with guard.ReasonDone.
func (i *Interceptors) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if i.reads[info.FullMethod] {
		return handle(srv, &guardedStream{stream, withoutToken(stream.Context())})
	}
	pass, err := i.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	if pass.Replay != nil { // kept by another transport
		return Status(&guard.RefusedError{Reason: guard.ReasonDone})
	}
	return perform(stream.Context(), pass, func(ctx context.Context) (guard.Response, error) {
		return guard.Response{NotKept: true}, handle(srv, &guardedStream{stream, ctx})
	})
}

func (i *Interceptors) admit(ctx context.Context, method string) (*guard.Pass, error) {
	pass, err := i.guard.Admit(ctx, tokenOf(ctx), i.writes[method]...)
	if err != nil {
		return nil, Status(err)
	}
	return pass, nil
}

// perform runs a handler and records how the operation ended. errors.As, since
// handlers may wrap statuses.
func perform(ctx context.Context, pass *guard.Pass, handle func(context.Context) (guard.Response, error)) error {
	guarded := pass.Context(withoutToken(ctx))
	returned := false
	defer func() {
		if !returned { // it panicked
			pass.Doubtful(guarded)
		}
	}()
	response, err := handle(guarded)
	returned = true
	switch {
	case err == nil:
		pass.Done(guarded, response)
	case proofOfRefusal(err):
		pass.Refused(guarded)
	default:
		pass.Doubtful(guarded)
	}
	return err
}

// proofOfRefusal: the handler saw the call and did nothing of it.
func proofOfRefusal(err error) bool {
	var said interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &said) {
		return false
	}
	switch said.GRPCStatus().Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

func key() string { return strings.ToLower(guard.TokenHeader) }

// tokenOf is the one token of a call. Two are worse than none.
func tokenOf(ctx context.Context) string {
	switch values := metadata.ValueFromIncomingContext(ctx, key()); len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	default:
		return "several"
	}
}

// withoutToken: it is a credential, and handlers log metadata.
func withoutToken(ctx context.Context) context.Context {
	md, ok := metadata.FromIncomingContext(ctx) // a copy
	if !ok {
		return ctx
	}
	md.Delete(key())
	return metadata.NewIncomingContext(ctx, md)
}

type guardedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *guardedStream) Context() context.Context { return s.ctx }

// pack keeps a reply; one that is no message is performed and not kept.
func pack(reply any) guard.Response {
	message, ok := reply.(proto.Message)
	if !ok {
		return guard.Response{NotKept: true}
	}
	packed, err := anypb.New(message)
	if err != nil {
		return guard.Response{NotKept: true}
	}
	body, err := proto.Marshal(packed)
	if err != nil {
		return guard.Response{NotKept: true}
	}
	return guard.Response{Body: body}
}

func unpack(r guard.Response) (proto.Message, error) {
	var packed anypb.Any
	if err := proto.Unmarshal(r.Body, &packed); err != nil {
		return nil, err
	}
	return packed.UnmarshalNew()
}

// Status is the gRPC error of a request that was refused: a code, and the reason
// as ErrorInfo. Any other error than a *guard.RefusedError is guard.ReasonUnavailable.
func Status(err error) error {
	reason := guard.ReasonOf(err)
	st := status.New(codeOf(reason), "refused: "+string(reason))
	if detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: string(reason), Domain: Domain}); err == nil {
		st = detailed
	}
	return st.Err()
}

func codeOf(reason guard.Reason) codes.Code {
	switch reason {
	case guard.ReasonTokenRequired, guard.ReasonTokenInvalid:
		return codes.Unauthenticated
	case guard.ReasonForbidden:
		return codes.PermissionDenied
	case guard.ReasonInProgress, guard.ReasonUnresolved:
		return codes.Aborted
	case guard.ReasonDone, guard.ReasonMismatch:
		return codes.FailedPrecondition
	default:
		return codes.Unavailable
	}
}
