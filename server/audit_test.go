package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// recordBook is a ledger that has some events, and switches.
type recordBook struct {
	*memoryLedger
	events   []ledger.AuditEvent
	switches []ledger.KillSwitch

	tenant string
	filter ledger.EventFilter
}

func (b *recordBook) Events(_ context.Context, tenant string, f ledger.EventFilter, after ledger.EventPosition, limit int) ([]ledger.AuditEvent, error) {
	b.tenant, b.filter = tenant, f
	rest := slices.DeleteFunc(slices.Clone(b.events), func(e ledger.AuditEvent) bool {
		return e.OperationID < after.OperationID || e.OperationID == after.OperationID && e.Sequence <= after.Sequence
	})
	return rest[:min(limit, len(rest))], nil
}

func (b *recordBook) KillSwitches(context.Context, string) ([]ledger.KillSwitch, error) {
	return b.switches, nil
}

func (b *recordBook) SetKillSwitch(_ context.Context, k ledger.KillSwitch) error {
	b.switches = append(b.switches, k)
	return nil
}

func (b *recordBook) ClearKillSwitch(_ context.Context, k ledger.KillSwitch) error {
	n := len(b.switches)
	b.switches = slices.DeleteFunc(b.switches, func(s ledger.KillSwitch) bool {
		return s.Tenant == k.Tenant && s.ActionType == k.ActionType && s.Provider == k.Provider
	})
	if len(b.switches) == n {
		return ledger.ErrNotFound
	}
	return nil
}

func newRecordServer(t *testing.T) (*Server, *recordBook) {
	t.Helper()
	book := &recordBook{memoryLedger: newMemoryLedger()}
	return newFastServer(t, book.memoryLedger, slog.New(slog.DiscardHandler), func(o *Options) { o.Ledger = book }), book
}

// by is the context of a call of somebody of acme.
func by(t *testing.T, roles ...policy.Role) context.Context {
	return &caller{Context: t.Context(), principal: policy.Principal{Tenant: "acme", Actor: "ann", Roles: roles}}
}

func wantRefusal(t *testing.T, what string, err error, code codes.Code, reason, says string) {
	t.Helper()
	var r *refusal
	if !errors.As(err, &r) || r.code != code || r.reason != reason || !strings.Contains(r.message, says) {
		t.Errorf("%s: %v, want %s %s with %q", what, err, code, reason, says)
	}
}

func TestListEvents(t *testing.T) {
	t.Parallel()
	s, book := newRecordServer(t)
	at := time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC)
	ids := []string{"01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"}
	hash := ledger.Hash{1}
	for _, id := range ids {
		book.events = append(book.events,
			ledger.AuditEvent{OperationID: id, Sequence: 1, At: at, Event: "claim", To: ledger.Running, Attempt: 1, ArgsHash: hash, Actor: "planner", Chain: []byte{0xab},
				Context: &ledger.EventContext{ActionType: "a.b", KeyHash: "ff", Run: ledger.Run{ToolVersion: "2"}, Decision: "allow", Rule: "r", Stage: ledger.StageEnforce, Amount: "1.00", Currency: "EUR"}},
			ledger.AuditEvent{OperationID: id, Sequence: 4, At: at, Event: "confirm", From: ledger.Running, To: ledger.Succeeded, Reference: "re_1", Outcome: "applied"})
	}
	filter := &oncewardv1.EventFilter{OperationId: ids[0], ActionType: "a.b", Actor: "x", DeniedOnly: true, RecordedAfter: timestamppb.New(at), RecordedBefore: timestamppb.New(at)}
	var got []string
	req := &oncewardv1.ListEventsRequest{PageSize: 3, Filter: filter}
	for {
		resp, err := s.ListEvents(by(t, policy.Auditor), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEvents() {
			got = append(got, e.GetOperationId()+" "+e.GetEvent())
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
		if _, err := s.ListEvents(by(t, policy.Admin), &oncewardv1.ListEventsRequest{PageToken: req.GetPageToken()}); err == nil {
			t.Error("a page token works with another filter")
		}
	}
	if want := []string{ids[0] + " claim", ids[0] + " confirm", ids[1] + " claim", ids[1] + " confirm"}; !slices.Equal(got, want) {
		t.Errorf("pages hold %q, want %q", got, want)
	}
	if want := (ledger.EventFilter{OperationID: ids[0], ActionType: "a.b", Actor: "x", DeniedOnly: true, RecordedAfter: at, RecordedBefore: at}); book.tenant != "acme" || book.filter != want {
		t.Errorf("asked for %q, %+v; want acme, %+v", book.tenant, book.filter, want)
	}
	resp, err := s.ListEvents(by(t, policy.Admin), &oncewardv1.ListEventsRequest{})
	if err != nil || len(resp.GetEvents()) != 4 {
		t.Fatalf("%v, %v", resp, err)
	}
	first, second := resp.GetEvents()[0], resp.GetEvents()[1]
	if c := first.GetContext(); c.GetStage() != oncewardv1.Stage_STAGE_ENFORCE || c.GetRun().GetToolVersion() != "2" || c.GetAmount() != "1.00" || c.GetRule() != "r" ||
		first.GetChain() != "ab" || !strings.HasPrefix(first.GetArgumentsHash(), "01") || !first.GetAt().AsTime().Equal(at) || first.GetFromState() != 0 {
		t.Errorf("the first event is %v", first)
	}
	if second.GetContext() != nil || second.GetArgumentsHash() != "" || second.GetProviderReference() != "re_1" || second.GetSequence() != 4 ||
		second.GetToState() != oncewardv1.OperationState_OPERATION_STATE_SUCCEEDED {
		t.Errorf("the second event is %v", second)
	}
}

func TestListEventsRefuses(t *testing.T) {
	t.Parallel()
	s, _ := newRecordServer(t)
	_, err := s.ListEvents(by(t, policy.Agent, policy.Reviewer), &oncewardv1.ListEventsRequest{})
	wantRefusal(t, "neither auditor nor admin", err, codes.PermissionDenied, reasonRoleRequired, "auditor or admin")
	for what, req := range map[string]*oncewardv1.ListEventsRequest{
		"page_size: wants":    {PageSize: 1001},
		"page_size: wants 1":  {PageSize: -1},
		"page_token":          {PageToken: "x"},
		"filter.operation_id": {Filter: &oncewardv1.EventFilter{OperationId: "op_1"}},
		"filter.actor":        {Filter: &oncewardv1.EventFilter{Actor: strings.Repeat("a", 1000)}},
		"filter.recorded_after: is not a time": {Filter: &oncewardv1.EventFilter{
			RecordedAfter: &timestamppb.Timestamp{Seconds: 1 << 60}}},
	} {
		_, err := s.ListEvents(by(t, policy.Auditor), req)
		wantRefusal(t, what, err, codes.InvalidArgument, reasonInvalidRequest, what)
	}
}

func TestKillSwitchCalls(t *testing.T) {
	t.Parallel()
	s, book := newRecordServer(t)
	admin := by(t, policy.Admin)
	provider := refunds{}.Spec().Contract.Provider
	for what, tt := range map[string]struct {
		req  *oncewardv1.SetKillSwitchRequest
		says string
	}{
		"no reason":     {&oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: " "}, "reason: say why"},
		"long":          {&oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: strings.Repeat("x", 256)}, "reason: "},
		"both":          {&oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: "x", ActionType: refundType, Provider: provider}, "cannot both be named"},
		"no such type":  {&oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: "x", ActionType: "a.b"}, "action_type: is no action type"},
		"no such thing": {&oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: "x", Provider: "nobody"}, "provider: is no provider"},
	} {
		_, err := s.SetKillSwitch(admin, tt.req)
		wantRefusal(t, what, err, codes.InvalidArgument, reasonInvalidRequest, tt.says)
	}
	_, err := s.SetKillSwitch(by(t, policy.Agent, policy.Reviewer, policy.Auditor), &oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: "x"})
	wantRefusal(t, "not an admin", err, codes.PermissionDenied, reasonRoleRequired, "admin")
	_, err = s.ListKillSwitches(by(t, policy.Agent), &oncewardv1.ListKillSwitchesRequest{})
	wantRefusal(t, "an agent lists", err, codes.PermissionDenied, reasonRoleRequired, "admin")

	book.switches = []ledger.KillSwitch{{Tenant: ledger.AllTenants, Reason: "outage", SetBy: "ops"}}
	resp, err := s.SetKillSwitch(admin, &oncewardv1.SetKillSwitchRequest{Stopped: true, Reason: "it runs wild", Provider: provider})
	if err != nil || len(resp.GetKillSwitches()) != 2 || !resp.GetKillSwitches()[0].GetInstallationWide() {
		t.Fatalf("%v, %v", resp, err)
	}
	if got := book.switches[1]; got.Tenant != "acme" || got.Provider != provider || got.Reason != "it runs wild" || got.SetBy != "ann" {
		t.Errorf("set %+v", got)
	}
	for range 2 { // again is harmless
		resp, err = s.SetKillSwitch(admin, &oncewardv1.SetKillSwitchRequest{Provider: provider})
		if err != nil || len(resp.GetKillSwitches()) != 1 {
			t.Errorf("let go on: %v, %v", resp, err)
		}
	}
}

func TestGetPolicy(t *testing.T) {
	t.Parallel()
	s, _ := newRecordServer(t)
	resp, err := s.GetPolicy(by(t, policy.Reviewer), &oncewardv1.GetPolicyRequest{})
	if err != nil || len(resp.GetStages()) != 1 || resp.GetStages()[0].GetActionType() != refundType || resp.GetStages()[0].GetStage() != oncewardv1.Stage_STAGE_RECONCILE {
		t.Errorf("%v, %v", resp, err)
	}
	_, err = s.GetPolicy(by(t, policy.Agent), &oncewardv1.GetPolicyRequest{})
	wantRefusal(t, "an agent", err, codes.PermissionDenied, reasonRoleRequired, "admin or auditor or reviewer")
}

// A planner whose request is stopped is told why, and no more.
func TestStoppedIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	r := toRefusal(t.Context(), &ledger.StoppedError{Switch: ledger.KillSwitch{Tenant: ledger.AllTenants, Provider: "fakepay", Reason: "it runs wild", SetBy: "ops:ann"}})
	if r.code != codes.FailedPrecondition || r.reason != reasonStopped || !strings.Contains(r.message, "it runs wild") || strings.Contains(r.message, "ann") {
		t.Errorf("told %+v", r)
	}
}
