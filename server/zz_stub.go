package server

import (
	"context"

	"github.com/onceward/onceward/ledger"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type fates struct{}

func (*fates) note(string, error) {}
func (*fates) of(string) struct{} { return struct{}{} }

type tallies struct{}

func (*tallies) refused(tenant, actionType, reason string)                                {}
func (*tallies) executed(op *ledger.Operation)                                            {}
func (*tallies) duplicate(op *ledger.Operation, cause oncewardv1.RetryCause, stated bool) {}

func explainDuplicate(req *oncewardv1.RequestActionRequest, op *ledger.Operation, f struct{}) *oncewardv1.Duplicate {
	return &oncewardv1.Duplicate{Cause: req.GetRetryCause()}
}
func (s *Server) observe(ctx context.Context, a *admission, req *oncewardv1.RequestActionRequest, err error) (*oncewardv1.RequestActionResponse, error) {
	return nil, err
}
