package server

import (
	"context"
	"errors"
	"strings"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Switches is what the server needs of the ledger's kill switches.
type Switches interface {
	KillSwitches(ctx context.Context, tenant string) ([]ledger.KillSwitch, error)
	SetKillSwitch(ctx context.Context, k ledger.KillSwitch) error
	ClearKillSwitch(ctx context.Context, k ledger.KillSwitch) error
}

// maxStopReason bounds why something is stopped: planners are told.
const maxStopReason = 255

// GetPolicy returns the tenant's policy that is in force here.
func (s *Server) GetPolicy(ctx context.Context, _ *oncewardv1.GetPolicyRequest) (*oncewardv1.GetPolicyResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Admin, policy.Auditor, policy.Reviewer); err != nil {
		return nil, err
	}
	in := s.Policies(p.Tenant)
	resp := &oncewardv1.GetPolicyResponse{Version: in.Version(), Yaml: in.YAML()}
	if resp.GetVersion() == "" {
		return resp, nil // nothing is even observed
	}
	for _, action := range s.Registry.All() {
		resp.Stages = append(resp.Stages, &oncewardv1.ActionTypeStage{ActionType: action.Spec.Type, Stage: toStage(in.Stage(action.Spec.Type))})
	}
	return resp, nil
}

// ListKillSwitches returns what is stopped for the tenant.
func (s *Server) ListKillSwitches(ctx context.Context, _ *oncewardv1.ListKillSwitchesRequest) (*oncewardv1.ListKillSwitchesResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Admin, policy.Auditor, policy.Reviewer); err != nil {
		return nil, err
	}
	switches, err := s.killSwitches(ctx, p.Tenant)
	return &oncewardv1.ListKillSwitchesResponse{KillSwitches: switches}, err
}

// SetKillSwitch stops actions of the tenant, or lets them go on. To let go on what
// is not stopped is harmless.
func (s *Server) SetKillSwitch(ctx context.Context, req *oncewardv1.SetKillSwitchRequest) (*oncewardv1.SetKillSwitchResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Admin); err != nil {
		return nil, err
	}
	if err := s.checkSwitch(req); err != nil {
		return nil, err
	}
	k := ledger.KillSwitch{Tenant: p.Tenant, ActionType: req.GetActionType(), Provider: req.GetProvider(), Reason: req.GetReason(), SetBy: p.Actor}
	var err error
	if req.GetStopped() {
		err = s.Ledger.SetKillSwitch(ctx, k)
	} else if err = s.Ledger.ClearKillSwitch(ctx, k); errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	s.Log.Warn("kill switch", "tenant", p.Tenant, "action_type", k.ActionType, "provider", k.Provider, "stopped", req.GetStopped(), "by", p.Actor)
	switches, err := s.killSwitches(ctx, p.Tenant)
	return &oncewardv1.SetKillSwitchResponse{KillSwitches: switches}, err
}

// checkSwitch refuses what would stop nothing: a name that nobody has here. A name
// that was stopped before it went can still be let go on.
func (s *Server) checkSwitch(req *oncewardv1.SetKillSwitchRequest) error {
	var bad []actions.Violation
	for field, text := range map[string]string{"action_type": req.GetActionType(), "provider": req.GetProvider()} {
		if v, ok := checkName(field, text); !ok {
			bad = append(bad, v)
		}
	}
	if v, ok := checkText("reason", req.GetReason(), maxStopReason); !ok {
		bad = append(bad, v)
	}
	switch {
	case len(bad) > 0:
	case req.GetActionType() != "" && req.GetProvider() != "":
		bad = append(bad, actions.Violation{Field: "provider", Reason: actions.ReasonFormat, Message: "and action_type cannot both be named: set one switch for each"})
	case !req.GetStopped():
	case strings.TrimSpace(req.GetReason()) == "":
		bad = append(bad, actions.Violation{Field: "reason", Reason: actions.ReasonRequired, Message: "say why: planners that are refused are told"})
	case req.GetActionType() != "":
		if _, known := s.Registry.Get(req.GetActionType()); !known {
			bad = append(bad, actions.Violation{Field: "action_type", Reason: actions.ReasonEnum, Message: "is no action type of this server: ListActionTypes has them"})
		}
	case req.GetProvider() != "" && !s.hasProvider(req.GetProvider()):
		bad = append(bad, actions.Violation{Field: "provider", Reason: actions.ReasonEnum, Message: "is no provider of this server's action types: ListActionTypes has them"})
	}
	if len(bad) > 0 {
		return invalid(bad...)
	}
	return nil
}

func (s *Server) hasProvider(name string) bool {
	for _, action := range s.Registry.All() {
		if action.Spec.Contract.Provider == name {
			return true
		}
	}
	return false
}

func (s *Server) killSwitches(ctx context.Context, tenant string) ([]*oncewardv1.KillSwitch, error) {
	switches, err := s.Ledger.KillSwitches(ctx, tenant)
	out := make([]*oncewardv1.KillSwitch, 0, len(switches))
	for _, k := range switches {
		out = append(out, &oncewardv1.KillSwitch{
			ActionType: k.ActionType, Provider: k.Provider, Reason: k.Reason, SetBy: k.SetBy, SetAt: toTime(k.SetAt),
			InstallationWide: k.Tenant == ledger.AllTenants,
		})
	}
	return out, err
}
