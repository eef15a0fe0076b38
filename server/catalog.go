package server

import (
	"context"

	"google.golang.org/grpc/codes"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// ListActionTypes returns every action type, sorted by name.
func (s *Server) ListActionTypes(ctx context.Context, _ *oncewardv1.ListActionTypesRequest) (*oncewardv1.ListActionTypesResponse, error) {
	if err := want(principalOf(ctx), everyone()...); err != nil {
		return nil, err
	}
	resp := &oncewardv1.ListActionTypesResponse{}
	for _, action := range s.Registry.All() {
		resp.ActionTypes = append(resp.ActionTypes, toActionType(action))
	}
	return resp, nil
}

// GetActionType returns one action type.
func (s *Server) GetActionType(ctx context.Context, req *oncewardv1.GetActionTypeRequest) (*oncewardv1.GetActionTypeResponse, error) {
	if err := want(principalOf(ctx), everyone()...); err != nil {
		return nil, err
	}
	action, ok := s.Registry.Get(req.GetName())
	if !ok {
		return nil, refuse(codes.NotFound, reasonUnknownActionType, "no action type %q; ListActionTypes has those there are", clipped(req.GetName()))
	}
	return &oncewardv1.GetActionTypeResponse{ActionType: toActionType(action)}, nil
}
