package laws

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/onceward/onceward/internal/apptest"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// call is one RPC of the contract: who may make it, and about what.
type call struct {
	method string
	roles  string // who may, in one line
	// request is about an operation, a key and a review, as far as the RPC names
	// any.
	request func(on subject) proto.Message
	// unknown is the reason of NOT_FOUND when it names somebody else's; empty
	// where it names nothing.
	unknown string
	// own is the answer about an operation of the caller's tenant that waits for
	// a reviewer.
	own codes.Code
}

// subject is what a call is about.
type subject struct{ operation, key, review string }

const (
	everyone = "admin agent auditor reviewer"
	people   = "admin auditor reviewer"
)

// notServedYet are services of the contract that the server does not have. A
// name that is here and served, or not here and not served, fails a test: take it
// out to switch its rows on.
func notServedYet() []string { return nil }

// calls is every RPC. A test fails when one is missing.
func calls() []call {
	return []call{
		{"ActionService.RequestAction", "agent", func(on subject) proto.Message {
			req := apptest.Refund("ch_call", 5, "run_call")
			req.CorrectsOperationId = on.operation
			return req
		}, "OPERATION_NOT_FOUND", codes.FailedPrecondition},
		{"ActionService.PreviewAction", "agent", func(on subject) proto.Message {
			req := apptest.Refund("ch_call", 5, "run_call")
			req.DistinctFromOperationId = on.operation
			return &oncewardv1.PreviewActionRequest{Request: req}
		}, "OPERATION_NOT_FOUND", codes.OK},
		{"ActionService.GetOperation", everyone, func(on subject) proto.Message {
			return &oncewardv1.GetOperationRequest{Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: on.operation}}
		}, "OPERATION_NOT_FOUND", codes.OK},
		{"ActionService.ListOperations", everyone, func(subject) proto.Message { return &oncewardv1.ListOperationsRequest{} }, "", codes.OK},
		{"ActionService.WatchOperation", everyone, func(on subject) proto.Message {
			return &oncewardv1.WatchOperationRequest{OperationId: on.operation}
		}, "OPERATION_NOT_FOUND", codes.OK},
		{"ActionService.CancelOperation", "agent", func(on subject) proto.Message {
			return &oncewardv1.CancelOperationRequest{OperationId: on.operation}
		}, "OPERATION_NOT_FOUND", codes.OK},
		{"AuditService.ListEvents", "admin auditor", func(on subject) proto.Message {
			return &oncewardv1.ListEventsRequest{Filter: &oncewardv1.EventFilter{OperationId: on.operation}}
		}, "", codes.OK},
		{"CatalogService.ListActionTypes", everyone, func(subject) proto.Message { return &oncewardv1.ListActionTypesRequest{} }, "", codes.OK},
		{"CatalogService.GetActionType", everyone, func(subject) proto.Message {
			return &oncewardv1.GetActionTypeRequest{Name: "notes.insert"}
		}, "", codes.OK},
		{"PolicyService.GetPolicy", people, func(subject) proto.Message { return &oncewardv1.GetPolicyRequest{} }, "", codes.OK},
		{"PolicyService.ListKillSwitches", people, func(subject) proto.Message { return &oncewardv1.ListKillSwitchesRequest{} }, "", codes.OK},
		// It lets go on what nobody has stopped.
		{"PolicyService.SetKillSwitch", "admin", func(subject) proto.Message {
			return &oncewardv1.SetKillSwitchRequest{ActionType: "notes.insert"}
		}, "", codes.OK},
		{"ReviewService.ListReviews", people, func(subject) proto.Message { return &oncewardv1.ListReviewsRequest{} }, "", codes.OK},
		{"ReviewService.ResolveReview", "reviewer", func(on subject) proto.Message {
			return &oncewardv1.ResolveReviewRequest{ReviewId: on.review, Decision: &oncewardv1.ResolveReviewRequest_Approve{Approve: &oncewardv1.Approve{}}}
		}, "REVIEW_NOT_FOUND", codes.OK},
		{"StatsService.GetStats", people, func(subject) proto.Message { return &oncewardv1.GetStatsRequest{} }, "", codes.OK},
	}
}

// named returns one RPC of the table.
func named(method string) call {
	i := slices.IndexFunc(calls(), func(c call) bool { return c.method == method })
	return calls()[i]
}

func (c call) service() string { service, _, _ := strings.Cut(c.method, "."); return service }

// may says whether a principal with these roles may make the call.
func (c call) may(roles ...string) bool {
	return slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(strings.Fields(c.roles), r) })
}

// invoke makes the call and returns its first answer.
func (c call) invoke(ctx context.Context, r *apptest.Replica, on subject) (proto.Message, error) {
	method := methods()[c.method]
	found, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
	if err != nil {
		return nil, err
	}
	answer := found.New().Interface()
	path := "/onceward.v1." + strings.Replace(c.method, ".", "/", 1)
	if !method.IsStreamingServer() {
		return answer, r.Conn.Invoke(ctx, path, c.request(on), answer)
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := r.Conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(c.request(on)); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	return answer, stream.RecvMsg(answer)
}

// methods are the RPCs of the contract that we serve, by service and name.
func methods() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("onceward.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if service.Name() == "AdapterService" {
				continue // others serve it, and we call
			}
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				all[string(service.Name())+"."+string(method.Name())] = method
			}
		}
		return true
	})
	return all
}

// services are those of the contract that a replica serves, as it says itself.
func services(t testing.TB, r *apptest.Replica) []string {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(r.Conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		if name, ours := strings.CutPrefix(service.GetName(), "onceward.v1."); ours {
			names = append(names, name)
		}
	}
	return names
}

// served are the rows of the services that a replica has.
func served(t testing.TB, r *apptest.Replica) []call {
	t.Helper()
	names := services(t, r)
	return slices.DeleteFunc(calls(), func(c call) bool { return !slices.Contains(names, c.service()) })
}
